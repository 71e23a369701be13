package pickle_test

import (
	"fmt"

	"unseen/internal/pickle"
)

func ExampleDecode() {
	// python3 -c 'import pickle; print(pickle.dumps({"a": [1, 2.5]}, 2))'
	data := []byte("\x80\x02}q\x00X\x01\x00\x00\x00aq\x01]q\x02(K\x01G@\x04\x00\x00\x00\x00\x00\x00es.")
	v, n, err := pickle.Decode(data, pickle.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, _ := v.(*pickle.Dict).Get("a")
	fmt.Println(n == len(data), list.(*pickle.List).Items)

	// What would run a command in Python is only named.
	v, _, _ = pickle.Decode([]byte("cos\nsystem\n(S'ls'\ntR."), pickle.Limits{})
	fmt.Println(pickle.Describe(v))
	// Output:
	// true [1 2.5]
	// a os.system
}
