// Fields, and the links that exposure hides between them.
import {colour, data} from './charts.js'
import {chart, tip} from './maps.js'

const graph = data('graph')

if (graph?.links?.length) {
	const most = Math.max(...graph.links.map(l => l.gap)), largest = Math.max(...graph.fields.map(f => f.nodes))
	chart('graph', width => {
		const narrow = width < 600
		const height = Math.round(Math.max(340, Math.min(560, width * .6)))
		const across = Math.max(width / 2 - (narrow ? 64 : 180), 60)
		const down = height / 2 - Math.max(44, .16 * across + 12) // the lowest arrow bends outwards by .09 of its length
		const place = k => 2 * Math.PI * k / graph.fields.length - Math.PI / 2
		const side = a => Math.abs(Math.cos(a)) < .3 || narrow ? (Math.sin(a) < 0 ? 'top' : 'bottom') : (Math.cos(a) > 0 ? 'right' : 'left')
		return {height, option: {
			tooltip: {formatter: ({dataType, data: d}) => dataType === 'edge' ? tip(`${d.source} → ${d.target}`, d.words) : tip(d.name, `${d.value.toLocaleString('en')} nodes`)},
			series: [{
				type: 'graph', layout: 'none', left: width / 2 - across, right: width / 2 - across, top: height / 2 - down, bottom: height / 2 - down,
				edgeSymbol: ['none', 'arrow'], edgeSymbolSize: narrow ? 7 : 10,
				data: graph.fields.map((f, k) => ({
					name: f.name, value: f.nodes, x: across * Math.cos(place(k)), y: down * Math.sin(place(k)), symbolSize: 12 + 24 * Math.sqrt(f.nodes / largest),
					label: {position: side(place(k))},
				})),
				itemStyle: {color: colour('s1'), borderColor: colour('paper'), borderWidth: 2, opacity: 1},
				// Arrows run below names, and on a phone neighbours have room for one word each.
				label: {show: true, color: colour('text'), textBorderColor: colour('paper'), textBorderWidth: 3, fontSize: narrow ? 11 : 13.5, distance: 6,
					formatter: ({name}) => narrow ? name.replaceAll(' ', '\n') : name},
				links: graph.links.map(l => ({
					...l, lineStyle: {width: 1 + 7 * l.gap / most, curveness: .18, color: colour(l.sure ? 's2' : 'axis'), opacity: l.sure ? .75 : .6, type: l.sure ? 'solid' : 'dashed'},
				})),
				emphasis: {focus: 'adjacency', lineStyle: {opacity: 1}},
			}],
		}}
	})
}
