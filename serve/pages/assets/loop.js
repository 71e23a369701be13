// The loop, simulated and live.
import {data, lines, redraw} from './charts.js'

// drawn is the data of each chart, so that a chart is redrawn only if its numbers changed.
const drawn = {}
const fresh = id => {
	const text = document.getElementById(id + '-data')?.textContent
	const is = text && (text !== drawn[id] || !document.querySelector(`#${id} canvas`))
	drawn[id] = text
	return is
}

const future = () => {
	const played = data('future')
	if (!played) return
	lines('future', played.all.map(s => s.round), [
		{name: 'naive', values: played.baseline.map(s => s.share), ink: 's8', dash: true},
		{name: 'simulated', values: played.all.map(s => s.share), low: played.all.map(s => s.low), high: played.all.map(s => s.high), ink: 's1'},
	], {y: [0, 1], xTitle: 'round', percent: true})
}

const past = () => {
	const live = data('past')
	if (!live?.trend) return
	lines('past', live.trend.map(t => t.items), [
		{name: 'share', values: live.trend.map(t => t.share), low: live.trend.map(t => t.low), high: live.trend.map(t => t.high), ink: 's1'},
	], {y: [0, 1], xTitle: 'items', percent: true, area: live.band})
}

redraw(() => { fresh('future'); fresh('past'); future(); past() })
document.addEventListener('htmx:after:swap', () => {
	if (fresh('future')) future()
	if (fresh('past')) past()
})
