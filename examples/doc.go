// Package examples holds small programs to start from, each to read from top to bottom:
//
//	risk       estimate how good predictions are, from links that were seen only where something was shown
//	recommend  fit a model that corrects for exposure, and recommend
//	loop       simulate a recommender that is trained on the outcome of its own recommendations
//	scheme     compare a weighting scheme of your own with the built-in ones
//	service    embed the service in a program of your own
//
//	go run ./examples/risk
//
// The first comment of each program shows what it prints; a test runs them all and compares.
package examples
