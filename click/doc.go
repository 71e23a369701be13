// Package click says what a click says. Somebody who is shown a target at place p of a surface, looks at that place and
// wants the target may click on it:
//
//	P(click | shown at place p) = κ·θ_p·y
//
// θ_p is the chance that the place is looked at, relative to the first, and κ the chance of a click where somebody
// looks and wants. Read as a link, a click would make relevance smaller by κ·θ_p: what was not clicked may be wanted
// all the same. So a showing without a click counts as unwanted only as far as wanting would have shown.
//
//	events ──► Reader: showings with their outcome ──► Estimate: κ and θ, given what is believed of relevance
//	                                                ──► Log.Exposures: pairs with the chance that wanting shows
//
// θ is learned from showings that chance has put at their place; κ from all of them. κ·y cannot be told apart by
// clicks: the level of y comes from links, or from events of kind linked, by which what was clicked and not linked is
// known to have been looked at and not wanted.
package click
