// Maps and graphs by ECharts in the colours of the page.
import {colour} from './charts.js'

// chart draws into an element, and again when the screen turns dark or light or its width changes. make
// gets the width and returns {height, option}, and a width where it needs more; then the element scrolls.
export const chart = (id, make) => {
	const at = document.getElementById(id)
	if (!at) return
	let drawing
	const draw = () => {
		drawing?.dispose()
		at.replaceChildren()
		const {height, option, width = at.clientWidth} = make(at.clientWidth)
		drawing = echarts.init(at, null, {renderer: 'canvas', width, height})
		drawing.setOption({
			animation: !matchMedia('(prefers-reduced-motion: reduce)').matches && false, textStyle: {fontFamily: 'system-ui, sans-serif', color: colour('text')},
			...option,
			tooltip: {
				confine: true, backgroundColor: colour('paper'), borderColor: colour('axis'), textStyle: {color: colour('text'), fontSize: 14}, ...option.tooltip,
			},
		})
	}
	draw()
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
	let width = at.clientWidth
	new ResizeObserver(() => {
		if (Math.abs(at.clientWidth - width) > 1) {
			width = at.clientWidth
			draw()
		}
	}).observe(at.parentElement)
}

// tip is what rests beside the mouse: nodes and no HTML, so that nothing of the data is taken for markup.
export const tip = (title, ...rows) => {
	const box = document.createElement('div')
	box.className = 'tip'
	const name = document.createElement('b')
	name.textContent = title
	box.append(name)
	for (const row of rows.filter(Boolean)) {
		const line = document.createElement('div')
		line.textContent = row
		box.append(line)
	}
	return box
}
