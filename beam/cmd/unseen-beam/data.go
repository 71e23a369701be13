package main

import (
	"fmt"
	"maps"

	"unseen/beam/shards"
	"unseen/model"
	"unseen/sample"
)

// sameData refuses a model of other data: of shards with another checksum, or of a dataset with other files.
func sameData(path string, m model.Model, to *shards.Manifest) error {
	if m.DataChecksum == to.Checksum() {
		return nil
	}
	data, says, err := sample.OriginOf(m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if says && len(data.Files) > 0 && maps.Equal(data.Files, to.Data.Files) {
		return nil
	}
	return fmt.Errorf("%w: %s was fitted to other data (checksum %.12s…, the shards' is %.12s…); give the model "+
		"of these shards, or fit one", shards.ErrOther, path, m.DataChecksum, to.Checksum())
}
