// Answers what Go's regexp finds, for the target re2. Each part of a question is a length of four bytes, the low one first, and
// a text: a pattern, and what it is looked for in. An answer is 1, the number of matches and where each begins and ends; or
// 0, a length and why it is no pattern.
package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"regexp"
)

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	number := func(value int) { binary.Write(out, binary.LittleEndian, uint32(value)) }
	part := func() string {
		var length uint32
		if binary.Read(in, binary.LittleEndian, &length) != nil {
			os.Exit(0)
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(in, text); err != nil {
			os.Exit(1)
		}
		return string(text)
	}
	for {
		pattern, text := part(), part()
		if expression, err := regexp.Compile(pattern); err != nil {
			number(0)
			number(len(err.Error()))
			out.WriteString(err.Error())
		} else {
			found := expression.FindAllStringIndex(text, -1)
			number(1)
			number(len(found))
			for _, place := range found {
				number(place[0])
				number(place[1])
			}
		}
		out.Flush()
	}
}
