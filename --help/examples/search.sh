# A retriever for `command(run="bash search.sh")`: it ranks tools by the words that they share with the query.
# It reads bench's JSON without jq: in its strings, every quote has a backslash before it.
export LC_ALL=C
while IFS= read -r asked; do
	[[ $asked =~ \"query\":\ \"(([^\"\\]|\\.)*)\",\ \"limit\":\ ([0-9]+) ]]
	found=$(query=${BASH_REMATCH[1]} awk '
		BEGIN {
			split(tolower(ENVIRON["query"]), words, / |\\[nrt]/)
			for (i in words) if (words[i] != "") asked[words[i]]
		}
		{
			id = text = $0
			sub(/^\{"id": /, "", id); sub(/, "name": ".*/, "", id); sub(/.*"text": "/, "", text); sub(/"}$/, "", text)
			split("", seen); split(tolower(text), words, / |\\[nrt]/)
			shared = 0
			for (i in words) if (words[i] in asked && !seen[words[i]]++) shared++
			print shared "\t" id
		}' "$BENCH_TOOLS" | sort -t $'\t' -k1,1nr -k2 | head -n "${BASH_REMATCH[3]}" | cut -f2 | paste -sd, -)
	echo "{\"tools\": [$found]}"
done
