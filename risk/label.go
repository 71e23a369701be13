package risk

import (
	"cmp"
	"slices"
)

// panel are the schemes by which every model is judged, in the order in which people are shown them.
var panel = []string{"naive", "w", "pu", "ap"}

// Panel names the schemes by which every model is judged.
func Panel() []string { return slices.Clone(panel) }

// labels are the estimates of the schemes that have a name of their own in print.
var labels = map[string]string{"naive": "naive", "w": "R_w", "pu": "R_PU", "ap": "R_AP", "dr": "R_DR"}

// Label is the printed name of the estimate by a scheme: R_w, R_PU, R_AP, R_DR, naive, and R_
// with the name for any other.
func Label(scheme string) string { return cmp.Or(labels[Canonical(scheme)], "R_"+scheme) }
