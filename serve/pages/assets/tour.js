// The tour of the first visit: four pages say what they are for, each with a button to the next, until a person ends
// the tour. The browser remembers that; one that remembers nothing gets no tour, as it could not be ended.

const key = 'unseen-tour'
const tour = document.getElementById('tour')
const again = document.getElementById('tour-again')
const steps = [...tour.querySelectorAll('li')]
const here = steps.findIndex(li => li.dataset.path === location.pathname)

const store = (() => {
	try {
		return window.localStorage
	} catch {
		return null
	}
})()

const show = step => {
	steps.forEach((li, k) => { li.hidden = k !== step })
	document.getElementById('tour-step').textContent = `Step ${step + 1} of ${steps.length}`
	document.getElementById('tour-end').textContent = step + 1 === steps.length ? 'Done' : 'End the tour'
	tour.hidden = false
	again.hidden = true
}

const end = () => {
	store.setItem(key, 'ended')
	tour.hidden = true
	again.hidden = false
	document.getElementById('main').focus()
}

if (store) {
	document.getElementById('tour-end').addEventListener('click', end)
	tour.addEventListener('keydown', event => {
		if (event.key === 'Escape') end()
	})
	again.addEventListener('click', () => {
		store.removeItem(key)
		const step = Math.max(here, 0)
		show(step)
		steps[step].querySelector('h2').focus()
	})
	again.hidden = store.getItem(key) === null
	if (again.hidden && here >= 0) {
		show(here)
		// Who came by the button of the page before goes on from here; the browser would begin at the top.
		if (location.hash === '#tour') addEventListener('load', () => steps[here].querySelector('h2').focus())
	}
}
