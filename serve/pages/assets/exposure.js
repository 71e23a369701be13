// The map of who was shown what.
import {colour, data} from './charts.js'
import {chart, tip} from './maps.js'

const map = data('heat')
const share = x => x < .01 ? (100 * x).toPrecision(2) + '%' : Math.round(100 * x) + '%'

const channels = hex => [1, 3, 5].map(k => parseInt(hex.slice(k, k + 2), 16))
const pale = hex => '#' + channels(hex).map((c, k) => Math.round(.55 * c + .45 * channels(colour('paper'))[k]).toString(16).padStart(2, '0')).join('')
// readable is black or white, whichever stands out more: they are even where the luminance is √(1.05·.05) − .05.
const readable = hex => {
	const [r, g, b] = channels(hex).map(c => c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4)
	return .2126 * r + .7152 * g + .0722 * b > .179 ? '#000000' : '#ffffff'
}

if (map?.cells?.length) {
	const levels = 32
	const at = x => Math.min(Math.floor(x / map.most * levels), levels - 1)
	const weak = c => c.links >= 0 && c.links < 5
	chart('heat', width => {
		const narrow = width < 500
		const longest = names => Math.max(...names.map(f => f.length))
		const left = Math.min(longest(map.rows) * (narrow ? 6 : 7.4) + 20, width * .32)
		const top = Math.min(longest(map.columns) * (narrow ? 6 : 5.2) + 16, 130)
		// names of rows and columns need that much each; a wider map scrolls
		const cell = Math.max(Math.min((width - left - (narrow ? 2 : 70)) / map.columns.length, 58), narrow ? 14 : 19)
		const high = map.rows.length > 20 ? Math.min(cell, 22) : cell
		const height = Math.round(top + high * map.rows.length + 8)
		const names = {color: colour('muted'), fontSize: narrow ? 10.5 : 13, interval: 0, width: left - 10, overflow: 'truncate'}
		return {height, width: Math.max(width, left + cell * map.columns.length + (narrow ? 2 : 70)), option: {
			grid: {left, top, width: cell * map.columns.length, height: high * map.rows.length},
			xAxis: {type: 'category', data: map.columns, position: 'top', axisLabel: {...names, rotate: narrow ? 90 : -45, width: 130, ...(narrow ? {} : {align: 'left'})}, axisLine: {show: false}, axisTick: {show: false}, splitArea: {show: false}},
			yAxis: {type: 'category', data: map.rows, inverse: true, axisLabel: names, axisLine: {show: false}, axisTick: {show: false}},
			tooltip: {formatter: ({data: {cell: c}}) => tip(
				map.turned ? `${map.rows[c.row]} shown to ${map.columns[c.column]}` : `${map.columns[c.column]} shown to ${map.rows[c.row]}`, `π̂ ${share(c.value)}`,
				c.high ? `95% interval ${share(c.low)} to ${share(c.high)}, standard error ${share(c.error)}` : 'interval unknown',
				c.links < 0 ? '' : `estimated from ${c.links} links in ${c.pairs} pairs` + (c.links < 5 ? ', so little more than a guess' : ''))},
			series: [{type: 'heatmap', data: map.cells.map(c => ({
				value: [c.column, c.row, c.value], cell: c,
				// an uncertain cell is pale, with a dashed frame
				itemStyle: weak(c) ? {color: pale(colour('h' + at(c.value))), borderColor: colour('muted'), borderWidth: 1, borderType: [2, 3]} : {color: colour('h' + at(c.value)), borderColor: colour('paper'), borderWidth: 1},
				label: {show: cell >= 30, formatter: share(c.value).replace('%', ''), color: weak(c) ? readable(pale(colour('h' + at(c.value)))) : colour('t' + at(c.value)), fontStyle: weak(c) ? 'italic' : 'normal', fontSize: 12},
			})), emphasis: {itemStyle: {borderColor: colour('text'), borderWidth: 2}}}],
		}}
	})
}
