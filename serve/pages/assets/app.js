// What every page has: sliders that say where they stand. Everything else works without script.

document.documentElement.classList.add('scripted')

document.addEventListener('input', event => {
	const output = event.target.type === 'range' && document.querySelector(`output[for="${event.target.id}"]`)
	if (output) {
		const digits = output.dataset.digits ?? 2
		output.value = output.dataset.percent === undefined ? Number(event.target.value).toFixed(digits) : Math.round(100 * event.target.value) + '%'
	}
})
