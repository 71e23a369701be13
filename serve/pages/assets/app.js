// For every page: sliders show their value, and a message says when the service does not respond. Everything else works
// without scripts.

document.documentElement.classList.add('scripted')

// On a phone the list comes first: options and long forms are folded into one line.
const narrow = matchMedia('(max-width: 600px)')
for (const options of document.querySelectorAll('details.controls, details.folds')) {
	const open = options.open
	const fold = () => { options.open = open && !narrow.matches }
	narrow.addEventListener('change', fold)
	fold()
}

document.addEventListener('input', event => {
	const output = event.target.type === 'range' && document.querySelector(`output[for="${event.target.id}"]`)
	if (output) {
		const digits = output.dataset.digits ?? 2
		output.value = output.dataset.percent === undefined ? Number(event.target.value).toFixed(digits) : Math.round(100 * event.target.value) + '%'
	}
})

const trouble = text => {
	const place = document.getElementById('trouble')
	place.hidden = !text
	place.textContent = text
}

// What is wrong, for a person. What was typed stays on the page.
const reason = (status, text) => {
	if (status === 401) return 'You are signed out. Sign in in another tab, then try again here: what you typed is still there.'
	try {
		return `The service refused this: ${JSON.parse(text).detail}.`
	} catch {
		return `The service responded with an error (${status}). This page is out of date; reload it.`
	}
}

// A part is replaced only by the same part: a response without it, such as an error, leaves the page as it is.
document.addEventListener('htmx:before:swap', event => {
	const {ctx} = event.detail
	const status = ctx.response?.status ?? 0
	const quiet = ctx.sourceElement?.id === 'alarm'
	if (ctx.select?.startsWith('#') && !ctx.text.includes(`id="${ctx.select.slice(1)}"`) || quiet && status !== 200) {
		event.preventDefault()
		if (!quiet) trouble(reason(status, ctx.text))
	} else if (!quiet) {
		trouble('')
	}
})

document.addEventListener('htmx:error', event => {
	const {ctx, error} = event.detail
	if (ctx?.sourceElement?.id !== 'alarm' && error?.name !== 'AbortError') trouble('The service cannot be reached, so this page may be out of date. What you typed is still there; try again once the service is back.')
})
