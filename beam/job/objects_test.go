package job

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/fit"
)

// objectStore is a real one with the protocol of S3, on loopback. Its objects are files of a folder. Between it and
// whoever asks is a proxy, which can cut connections.
type objectStore struct {
	folder string
	proxy  net.Listener
	behind string
	cut    atomic.Int64 // so many more connections are cut, once they have brought some bytes
	done   atomic.Int64 // have been cut
}

// openObjects starts the store that UNSEEN_OBJECTS names, and has this process use it.
func openObjects(t *testing.T) *objectStore {
	t.Helper()
	program := os.Getenv("UNSEEN_OBJECTS")
	if program == "" {
		t.Skip("not run: shards in an object store; beam/check installs one and names it by UNSEEN_OBJECTS")
	}
	s := &objectStore{folder: t.TempDir()}
	for _, folder := range []string{"objects/unseen", "about"} {
		if err := os.MkdirAll(filepath.Join(s.folder, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.behind = free.Addr().String()
	free.Close()
	output := must(os.Create(filepath.Join(s.folder, "output")))(t)
	command := exec.Command(program, "--access", "reader", "--secret", "not a secret", "--port", s.behind, "--quiet",
		"posix", "--sidecar", filepath.Join(s.folder, "about"), filepath.Join(s.folder, "objects"))
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.proxy = must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go s.serve()
	t.Cleanup(func() {
		s.proxy.Close()
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
		output.Close()
	})
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", s.behind)
		if err == nil {
			c.Close()
			break
		}
		if time.Since(began) > 20*time.Second {
			said, _ := os.ReadFile(output.Name())
			t.Fatalf("the object store does not answer: %v\n%s", err, said)
		}
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "not a secret",
		"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": "http://" + s.proxy.Addr().String(),
		"AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	return s
}

// at is a place in the store, and the folder that its objects are in.
func (s *objectStore) at(prefix string) (shards.Location, string) {
	return shards.Location{Root: "s3://unseen/" + prefix}, filepath.Join(s.folder, "objects", "unseen", prefix)
}

// serve passes connections on.
func (s *objectStore) serve() {
	for {
		near, err := s.proxy.Accept()
		if err != nil {
			return
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("tcp", s.behind)
			if err != nil {
				return
			}
			defer far.Close()
			go func() {
				io.Copy(far, near)
				far.Close()
			}()
			s.answer(near, far)
		}()
	}
}

// answer passes an answer on, or a part of one that is long.
func (s *objectStore) answer(near io.Writer, far io.Reader) {
	const some = 2000 // more than the heading
	if _, err := io.CopyN(near, far, some); err != nil {
		return
	}
	for left := s.cut.Load(); left > 0; left = s.cut.Load() {
		if s.cut.CompareAndSwap(left, left-1) {
			s.done.Add(1)
			return
		}
	}
	io.Copy(near, far)
}

// Shards in an object store are those of a folder: the same sums, parameters and lists, also where connections are lost
// while a shard or vectors are read.
func TestShardsInAnObjectStore(t *testing.T) {
	store := openObjects(t)
	ctx := context.Background()
	s := newSetup(t, 500, 16)
	settings := settingsFor("mle")
	settings.LBFGS.Iterations = 4
	cut := shards.CutSettings{Nodes: 170, Pairs: 4000}
	folder, _ := s.cut(t, cut)
	want := learn(t, folder, settings)
	for _, lost := range []int64{0, 3} {
		root, _ := store.at(fmt.Sprint("lost", lost))
		must(shards.Cut(ctx, root, s.Prepared, cut))(t)
		cluster := &Cluster{Shards: root, Manifest: must(root.Manifest(ctx))(t)}
		cluster.Work, _ = store.at(fmt.Sprint("work", lost))
		store.cut.Store(lost)
		if got := learn(t, cluster, settings); !bytes.Equal(got, want) {
			t.Errorf("%d connections lost: other parameters than of a folder", lost)
		}
		if done := store.done.Load(); done != lost {
			t.Fatalf("%d connections were cut, not %d", done, lost)
		}
		m := must(must(fit.Fit(ctx, s.Problem, settings))(t).Model())(t)
		near := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
		far, _ := store.at(fmt.Sprint("lists", lost))
		ours := must(folder.Recommend(ctx, m, near, ListSettings{K: 7, Part: 300}))(t)
		theirs := must(cluster.Recommend(ctx, m, far, ListSettings{K: 7, Part: 300}))(t)
		if !reflect.DeepEqual(readLists(t, near, ours), readLists(t, far, theirs)) {
			t.Errorf("%d connections lost: other lists than of a folder", lost)
		}
	}
	for _, pattern := range []string{"*.tmp-*", "*/*.tmp-*"} {
		if left := must(filepath.Glob(filepath.Join(store.folder, "objects", "unseen", pattern)))(t); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
}

// learn learns over shards, and returns the parameters as bytes.
func learn(t *testing.T, cluster *Cluster, settings fit.Settings) []byte {
	t.Helper()
	cluster.Settings = settings
	m := cluster.Manifest
	o := must(settings.Objective(must(m.Shape())(t), m.Extent))(t)
	settings.Engine = cluster
	got, err := fit.Descent{Objective: o, Settings: settings, Data: m.Checksum()}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%x", got.Params)
}

// What is damaged in an object store is named, and nothing is made of it: objects of which half is there or with a bit
// turned, put so by somebody or spoilt in the store; one that is gone; and a store that cuts every connection.
func TestDamagedObjectsAreNamed(t *testing.T) {
	store := openObjects(t)
	ctx := context.Background()
	s := newSetup(t, 300, 16)
	shard := func(m *shards.Manifest) string { return m.Train[1].File.Name }
	vectors := func(m *shards.Manifest) string { return m.Blocks[1].Vectors.Name }
	halve := func(content []byte) []byte { return content[:len(content)/2] }
	turn := func(content []byte) []byte {
		content[len(content)/2] ^= 4
		return content
	}
	put := func(change func([]byte) []byte) func(shards.Location, string, string) error {
		return func(root shards.Location, _, name string) error {
			_, err := root.WriteBytes(ctx, name, change(must(root.ReadAll(ctx, name))(t)))
			return err
		}
	}
	spoil := func(change func([]byte) []byte) func(shards.Location, string, string) error {
		return func(_ shards.Location, folder, name string) error {
			path := filepath.Join(folder, name)
			return os.WriteFile(path, change(must(os.ReadFile(path))(t)), 0o644)
		}
	}
	for k, c := range []struct {
		file   func(m *shards.Manifest) string
		damage func(root shards.Location, folder, name string) error
		words  string
	}{
		{shard, put(halve), "bytes and should have"}, {vectors, put(halve), "bytes and should have"},
		{shard, put(turn), "SHA-256"}, {vectors, put(turn), "SHA-256"},
		{shard, spoil(halve), "cannot be read"}, {vectors, spoil(turn), "cannot be read"},
		{shard, func(_ shards.Location, folder, name string) error { return os.Remove(filepath.Join(folder, name)) },
			"missing"},
		{shard, func(shards.Location, string, string) error { store.cut.Store(1 << 30); return nil }, "EOF"},
	} {
		root, folder := store.at(fmt.Sprint("damaged", k))
		m := must(shards.Cut(ctx, root, s.Prepared, shards.CutSettings{Nodes: 160}))(t)
		cluster := &Cluster{Shards: root, Manifest: must(root.Manifest(ctx))(t), Settings: settingsFor("mle")}
		cluster.Work, _ = store.at(fmt.Sprint("working", k))
		file := c.file(m)
		if err := c.damage(root, folder, file); err != nil {
			t.Fatal(err)
		}
		o := must(cluster.Settings.Objective(must(m.Shape())(t), m.Extent))(t)
		_, err := cluster.Gradient(ctx, o, make([]float32, o.Size()), nil)
		named := err != nil && (strings.Contains(err.Error(), file) || store.cut.Load() > 0) // any may be the first
		if !named || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s (%s): %v", file, c.words, err)
		}
	}
}
