// A job as it runs: progress and loss, by server-sent events.
import {data, lines, redraw} from './charts.js'

const points = data('loss') ?? []

const draw = () => {
	if (!points.length) return
	const validated = points.some(p => p.validation)
	const series = [{name: 'loss', values: points.map(p => p.loss), ink: 's1'}]
	if (validated) series.push({name: 'not trained on', values: points.map(p => p.validation || null), ink: 's2'})
	lines('loss', points.map(p => p.step), series, {xTitle: 'step'})
}
redraw(draw)

const job = document.getElementById('job')
if (job?.dataset.active === 'true') {
	const events = new EventSource(`/api/v1/jobs/${job.dataset.job}/progress`)
	const news = event => {
		const now = JSON.parse(event.data)
		document.getElementById('state').textContent = now.state
		const phase = document.getElementById('phase')
		if (now.phase && phase.textContent !== now.phase) phase.textContent = now.phase
		document.getElementById('done').value = now.done
		const latest = now.latest
		if (latest && latest.step > (points.at(-1)?.step ?? 0)) {
			points.push(latest)
			draw()
		}
		if (now.ended) {
			events.close()
			location.replace('/runs?job=' + job.dataset.job)
		}
	}
	events.addEventListener('job', news)
	events.onmessage = news
}
