// Lines by uPlot in the colours of the page, which follow light and dark screens.

export const data = id => {
	const block = document.getElementById(id + '-data')
	return block ? JSON.parse(block.textContent) : null
}

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()

// faint is a translucent colour.
export const faint = (name, share) => colour(name) + Math.round(255 * share).toString(16).padStart(2, '0')

// redraw calls a function now, and again when the screen turns dark or light.
export const redraw = draw => {
	draw()
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
}

const drawn = new Map() // the chart of each element, by id

// lines draws series over x into an element. Each has {name, values, ink, dash, low, high}; low and high make a band.
// area is a band over all x.
export const lines = (id, x, series, {y, xTitle, percent, area} = {}) => {
	const at = document.getElementById(id)
	if (!at || !x.length) return
	drawn.get(id)?.destroy()
	at.replaceChildren()
	const axis = {stroke: colour('muted'), grid: {stroke: colour('grid'), width: 1}, ticks: {stroke: colour('grid'), width: 1}, font: '12px system-ui, sans-serif'}
	const share = v => v == null ? '' : Math.round(100 * v) + '%'
	const all = [{}], values = [x], bands = []
	for (const s of series) {
		all.push({label: s.name, stroke: colour(s.ink), width: 2, dash: s.dash ? [6, 5] : undefined, points: {show: s.values.filter(v => v != null).length < 2, fill: colour(s.ink)}})
		values.push(s.values)
		if (s.low) {
			const edge = {stroke: 'transparent', width: 0, points: {show: false}}
			all.push(edge, edge)
			values.push(s.high, s.low)
			bands.push({series: [values.length - 2, values.length - 1], fill: faint(s.ink, .18)})
		}
	}
	const hooks = area ? {drawClear: [u => {
		const top = u.valToPos(area.high, 'y', true), bottom = u.valToPos(area.low, 'y', true)
		u.ctx.fillStyle = colour('calm-back')
		u.ctx.fillRect(u.bbox.left, Math.max(top, u.bbox.top), u.bbox.width, Math.min(bottom, u.bbox.top + u.bbox.height) - Math.max(top, u.bbox.top))
	}]} : {}
	const chart = new uPlot({
		width: at.clientWidth, height: Math.max(200, Math.min(300, at.clientWidth * .5)), series: all, bands, hooks,
		legend: {show: false}, cursor: {points: {size: 7}, drag: {x: false, y: false}},
		scales: {x: {time: false, range: (u, low, high) => low === high ? [low - 1, high + 1] : [low, high]}, y: {range: y ?? ((u, low, high) => {
			const room = (high - low || Math.abs(high) || 1) * .08
			return [low - room, high + room]
		})}},
		axes: [{...axis, label: xTitle, labelFont: '12px system-ui, sans-serif', labelSize: 22, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]}, {...axis, size: 58, values: percent ? (u, v) => v.map(share) : (u, v) => v.map(one => +one.toPrecision(4))}],
		plugins: [tip(percent ? share : v => v == null ? '' : v.toPrecision(5), xTitle)],
	}, values, at)
	drawn.set(id, chart)
	return chart
}

// tip says the numbers under the cursor.
const tip = (say, xTitle) => {
	const box = document.createElement('div')
	box.className = 'tip chart-tip'
	box.hidden = true
	return {hooks: {
		init: u => u.over.append(box),
		setCursor: u => {
			const k = u.cursor.idx
			box.hidden = k == null || u.cursor.left < 0
			if (box.hidden) return
			const title = document.createElement('b')
			title.textContent = `${xTitle} ${u.data[0][k]}`
			const rows = u.series.flatMap((s, n) => {
				if (!n || !s.label || u.data[n][k] == null) return []
				const row = document.createElement('div')
				const band = u.bands.find(b => b.series[0] === n + 1)
				row.textContent = `${s.label}: ${say(u.data[n][k])}` + (band ? ` (${say(u.data[n + 2][k])} to ${say(u.data[n + 1][k])})` : '')
				return [row]
			})
			box.replaceChildren(title, ...rows)
			const right = u.cursor.left > u.over.clientWidth / 2
			box.style.left = right ? 'auto' : u.cursor.left + 12 + 'px'
			box.style.right = right ? u.over.clientWidth - u.cursor.left + 12 + 'px' : 'auto'
			box.style.top = '8px'
		},
	}}
}

// sized keeps charts as wide as their place.
new ResizeObserver(entries => {
	for (const {target} of entries) {
		for (const [id, chart] of drawn) {
			const at = document.getElementById(id)
			if (at && at.clientWidth && at.clientWidth !== chart.width) chart.setSize({width: at.clientWidth, height: chart.height})
		}
	}
}).observe(document.body)
