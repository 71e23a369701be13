// Package examples holds small programs to read from top to bottom and to begin from:
//
//	risk       how good predictions are, from links that were seen only where something was shown
//	recommend  fit a model that corrects for exposure, and recommend
//	loop       a recommender that is trained on what comes of its own recommendations
//	scheme     a weighting scheme of your own, compared fairly
//	service    the service inside a program of your own
//
//	go run ./examples/risk
//
// What each prints stands in its first comment; a test runs them all and compares.
package examples
