// A retriever for `command(run="./search")`, after `go build search.go`: it counts the words of the query in each tool.
package main

import (
	"encoding/json"
	"os"
	"regexp"
	"sort"
	"strings"
)

func main() {
	data, _ := os.ReadFile(os.Getenv("BENCH_TOOLS"))
	var tools []struct{ ID, Text string }
	json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", ",")+"]"), &tools)
	for in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); in.More(); {
		var asked struct{ Query string }
		in.Decode(&asked)
		words := regexp.MustCompile(`\w+`).FindAllString(asked.Query, -1)
		word, ids, count := regexp.MustCompile(`(?i)\b(`+strings.Join(words, "|")+`)\b`), []string{}, map[string]int{}
		for _, tool := range tools {
			ids, count[tool.ID] = append(ids, tool.ID), len(word.FindAllString(tool.Text, -1))
		}
		sort.SliceStable(ids, func(i, j int) bool { return count[ids[i]] > count[ids[j]] })
		out.Encode(ids)
	}
}
