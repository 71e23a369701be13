// The progress and the loss of a running job, by server-sent events.
import {data, lines, redraw} from './charts.js'

const points = data('loss') ?? []

// Each start of training has its own line: the name of a phase ends at the first comma.
const draw = () => {
	if (!points.length) return
	const starts = [...new Set(points.map(p => p.phase.split(',')[0]))].slice(0, 6)
	const inks = ['s1', 's3', 's4', 's5', 's6', 's7']
	const of = (start, value) => points.map(p => p.phase.split(',')[0] === start ? value(p) || null : null)
	const series = starts.map((start, k) => ({name: start, values: of(start, p => p.loss), ink: inks[k]}))
	if (points.some(p => p.validation)) series.push({name: 'validation pairs', values: points.map(p => p.validation || null), ink: 's2', dash: true})
	lines('loss', points.map(p => p.step), series, {xTitle: 'step'})
	document.getElementById('loss-legend').replaceChildren(...series.map(s => {
		const item = document.createElement('li'), line = document.createElement('i')
		line.className = s.ink + (s.dash ? ' dash' : '')
		item.append(line, s.name)
		return item
	}))
}
redraw(draw)

const job = document.getElementById('job')
if (job?.dataset.active === 'true') {
	const service = new URL('..', import.meta.url) // this file is in its assets
	const events = new EventSource(new URL(`api/v1/jobs/${job.dataset.job}/progress`, service))
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
			location.replace(new URL('runs?job=' + job.dataset.job, service))
		}
	}
	events.addEventListener('job', news)
	events.onmessage = news
}
