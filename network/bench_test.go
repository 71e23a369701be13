package network_test

import (
	"os"
	"testing"

	"unseen/dataset"
	"unseen/network"
	"unseen/recommend"
)

// BenchmarkBridges looks for the bridges of a dataset of yours, UNSEEN_DATASET with the model UNSEEN_MODEL and the
// naive one UNSEEN_NAIVE, as the service does when a model goes live.
func BenchmarkBridges(b *testing.B) {
	folder, model, naive := os.Getenv("UNSEEN_DATASET"), os.Getenv("UNSEEN_MODEL"), os.Getenv("UNSEEN_NAIVE")
	if folder == "" || model == "" || naive == "" {
		b.Skip("UNSEEN_DATASET, UNSEEN_MODEL and UNSEEN_NAIVE do not name a dataset and two models of it")
	}
	n, err := network.Open(b.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	fitted, err := n.Model(b.Context(), model)
	if err != nil {
		b.Fatal(err)
	}
	baseline, err := n.Model(b.Context(), naive)
	if err != nil {
		b.Fatal(err)
	}
	r, err := fitted.Recommender(b.Context(), baseline, recommend.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.Bridges(b.Context(), recommend.BridgeSettings{Sources: 40, List: 20, Seed: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
