package main // A retriever for `command(run="./search")`: it counts the words of the query in each tool.

import "encoding/json"
import "os"
import "regexp"
import "sort"
import "strings"

func main() {
	tools, asked := []struct{ ID, Text string }{}, struct{ Query string }{}
	data, _ := os.ReadFile(os.Getenv("BENCH_TOOLS"))
	json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", ",")+"]"), &tools)
	for in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); in.Decode(&asked) == nil; {
		words := strings.Join(regexp.MustCompile(`\w+`).FindAllString(asked.Query, -1), "|")
		word, ids, count := regexp.MustCompile(`(?i)\b(`+words+`)\b`), []string{}, map[string]int{}
		for _, tool := range tools {
			ids, count[tool.ID] = append(ids, tool.ID), len(word.FindAllString(tool.Text, -1))
		}
		sort.SliceStable(ids, func(i, j int) bool { return count[ids[i]] > count[ids[j]] })
		out.Encode(ids)
	}
}
