package serve

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/model"
	"unseen/network"
	"unseen/recommend"
)

// FuzzSealedModels changes one text and one array of a model and seals it again, so that its digest is right. Whatever
// it then says, it is refused in one line or makes lists of numbers.
func FuzzSealedModels(f *testing.F) {
	folder, err := small()
	if err != nil {
		f.Fatal(err)
	}
	whole := map[bool]string{false: filepath.Join(folder, "model.safetensors"),
		true: filepath.Join(folder, "naive.safetensors")}
	n, err := network.Open(f.Context(), filepath.Join(folder, "dataset"), dataset.OpenOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { n.Close() })
	for naive, path := range whole {
		file, err := model.Open(path)
		if err != nil {
			f.Fatal(err)
		}
		for k, key := range slices.Sorted(maps.Keys(file.Metadata)) {
			text := file.Metadata[key]
			f.Add(naive, uint8(k), text, uint8(0), uint16(0), uint16(0), uint16(0), uint64(0))
			if strings.HasPrefix(text, "{") { // numbers that are too large, too small or no numbers
				for _, other := range []string{strings.ReplaceAll(text, "0", "-1e308"), "{}", "null"} {
					f.Add(naive, uint8(k), other, uint8(0), uint16(0), uint16(0), uint16(0), uint64(0))
				}
			}
		}
		for k := range file.Tensors {
			for _, bits := range []uint64{math.Float64bits(math.NaN()), math.MaxUint64, 1 << 63} {
				f.Add(naive, uint8(0), "", uint8(k), uint16(0), uint16(0), uint16(0), bits)
			}
			f.Add(naive, uint8(0), "", uint8(k), uint16(1), uint16(7), uint16(0), uint64(1))
			f.Add(naive, uint8(0), "", uint8(k), uint16(300), uint16(300), uint16(0), uint64(1))
		}
	}
	f.Fuzz(func(t *testing.T, naive bool, key uint8, text string, tensor uint8, rows, columns, at uint16, bits uint64) {
		file, err := model.Open(whole[naive])
		if err != nil {
			t.Fatal(err)
		}
		keys := slices.Sorted(maps.Keys(file.Metadata))
		if name := keys[int(key)%len(keys)]; text != "" && name != "sha256" {
			file.Metadata[name] = strings.ToValidUTF8(text, "?")
		}
		reshape(&file.Tensors[int(tensor)%len(file.Tensors)], int(rows), int(columns), int(at), bits)
		path := filepath.Join(t.TempDir(), "forged.safetensors")
		if err := file.Save(path); err != nil {
			t.Skip("such a file cannot be written: ", err)
		}
		if err := useModel(t, n, path); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	})
}

// reshape gives a tensor another shape, if there is one, and another number.
func reshape(t *model.Tensor, rows, columns, at int, bits uint64) {
	resize := func(length int) int {
		if rows*columns == 0 || rows*columns > 1<<18 {
			return length
		}
		t.Shape = []int{rows, columns}
		return rows * columns
	}
	switch data := t.Data.(type) {
	case []float64:
		t.Data = changed(data, resize(len(data)), at, math.Float64frombits(bits))
	case []float32:
		t.Data = changed(data, resize(len(data)), at, math.Float32frombits(uint32(bits)))
	case []int32:
		t.Data = changed(data, resize(len(data)), at, int32(bits))
	case []uint16:
		t.Data = changed(data, resize(len(data)), at, uint16(bits))
	case []uint8:
		t.Data = changed(data, resize(len(data)), at, uint8(bits))
	}
}

func changed[T any](data []T, length, at int, x T) []T {
	data = append(slices.Clone(data), make([]T, max(0, length-len(data)))...)[:length]
	if length > 0 {
		data[at%length] = x
	}
	return data
}

// useModel does with a model what a service does.
func useModel(t *testing.T, n *network.Network, path string) error {
	m, err := n.Model(t.Context(), path)
	if err != nil {
		return err
	}
	r, err := m.Recommender(t.Context(), nil, recommend.Options{Threads: 1})
	if err != nil {
		return err
	}
	list, err := r.Top(t.Context(), recommend.Query{Source: r.Node(1), K: 5, Explain: true, Explore: .2})
	if err != nil {
		return err
	}
	if _, err := json.Marshal(list); err != nil {
		t.Errorf("a list that is no JSON: %v", err)
	}
	return nil
}

// State files that were changed by hand are refused in one line, or the service starts.
func FuzzSealedState(f *testing.F) {
	names := []string{"registry.json", "jobs.json", "watch.json"}
	folder := copyOf(f)
	s, err := Open(f.Context(), Options{Folder: folder})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	at := func(folder, name string) string {
		if name == "registry.json" {
			return filepath.Join(folder, "models", name)
		}
		return filepath.Join(folder, name)
	}
	for k, name := range names {
		raw, err := os.ReadFile(at(folder, name))
		if err != nil {
			raw = []byte(`{}`)
		}
		f.Add(uint8(k), raw)
		f.Add(uint8(k), []byte(strings.ReplaceAll(string(raw), "1", "-9223372036854775808")))
		f.Add(uint8(k), []byte(`null`))
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		state := t.TempDir()
		if err := os.CopyFS(state, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		path := at(state, names[int(which)%len(names)])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{Folder: state})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		defer s.Close()
		h := s.Handler()
		for _, path := range []string{"/api/v1/recommendations?node=p1", "/api/v1/models", "/api/v1/jobs",
			"/api/v1/loop", "/api/v1/model", "/", "/explore", "/runs"} {
			if status, text := throw(t, h, "GET", path, "", nil); status >= 500 {
				t.Errorf("%s: %d %.300s", path, status, text)
			}
		}
	})
}
