package columnar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	Name  string `parquet:"name"`
	Value int64  `parquet:"value"`
}

func table(t *testing.T, rows int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(1500), parquet.PageBufferSize(4096))
	for k := range rows {
		if _, err := w.Write([]row{{fmt.Sprint("row ", k), int64(k * k)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestScan(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{0, 1, BatchRows, 4000} {
		raw := table(t, rows)
		f, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		err = Scan(context.Background(), f, []int{1, -1, 0}, func(first int64, n int, values [][]parquet.Value) error {
			if int(first) != next || n < 1 || n > BatchRows || values[1] != nil {
				t.Fatalf("%d rows from %d, want from %d; %d values of no column", n, first, next, len(values[1]))
			}
			for k := range n {
				if v, name := values[0][k].Int64(), values[2][k].String(); v != int64(next*next) ||
					name != fmt.Sprint("row ", next) {
					t.Fatalf("row %d is %d, %q", next, v, name)
				}
				next++
			}
			return nil
		})
		if err != nil || next != rows {
			t.Errorf("%d of %d rows, %v", next, rows, err)
		}
	}
}

func TestScanStops(t *testing.T) {
	t.Parallel()
	raw := table(t, 10)
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if err := Scan(context.Background(), f, []int{0},
		func(int64, int, [][]parquet.Value) error { return stop }); err != stop {
		t.Errorf("it says %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Scan(ctx, f, []int{0}, func(int64, int, [][]parquet.Value) error { return nil }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("it says %v", err)
	}
}

func TestOpenRefusesWhatIsNotParquet(t *testing.T) {
	t.Parallel()
	raw := table(t, 3)
	huge := bytes.Clone(raw)
	copy(huge[len(huge)-8:], "\xff\xff\xff\x7f")
	for name, bad := range map[string][]byte{"nothing": nil, "text": []byte("hello, this is text"),
		"a cut file": raw[:len(raw)-5], "a footer that claims 2 GiB": huge} {
		if _, err := Open(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
