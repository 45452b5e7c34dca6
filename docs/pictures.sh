#!/usr/bin/env bash
# Draws the pictures of the README and the docs again, by the commands that stand beside them.
set -eu
cd "$(dirname "$0")"
S="I am learning this"
T="The animal didn't cross the street because it was too tired"
for theme in light dark; do
  attnviz run "Your journey starts with one step" --variant causal --show weights --as terminal \
    --theme $theme -o terminal-$theme.svg -q
done
attnviz steps "$S" --dim 4 --step 5 --query this --key am -o slide-1.png --size 16:9 --dpi 72 -q
attnviz run "$S" --dim 4 --show queries,keys,scores -o slide-2.png --size 16:9 --dpi 72 -q
attnviz compare "$S" -o slide-3.png --size 16:9 --dpi 72 -q
attnviz steps "$S" --step softmax --query learning -o slide-4.png --size 16:9 --dpi 72 -q
attnviz run "$T" --variant causal -o slide-5.png --size 16:9 --dpi 72 -q
attnviz run "$T" --variant multi-head --query it -o slide-6.png --size 16:9 --dpi 72 -q
attnviz example show simplified -o steps.gif --dpi 60 -q
attnviz run "The old dogs slept because they were tired." --model toy -o toy.png --dpi 110 -q
attnviz inspect "$T" -o overview.png --size 16:9 --dpi 110 -q
attnviz compare "$T" "${T/tired/wide}" --model minilm --query it -o sentences.png --size 16:9 --dpi 72 -q
attnviz learn agreement -o agreement.gif -q
attnviz run "the keys near the cabinet ?" --model agreement --live -o example.html -q
if command -v chromium > /dev/null; then  # which draws the page as people see it
  chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,920 --virtual-time-budget=4000 \
    --screenshot=page.png example.html 2> /dev/null
fi
# The figures of papers.md: its command, and its Python as it stands there.
attnviz inspect "$T" --layer 5 --head 11 --title "" --size 3.3x3in --points 8 --font serif -o papers-column.png -q
docs=$PWD
(cd "$(mktemp -d)" && {
  sed -n '/^```python$/,/^```$/p' "$docs/papers.md" | sed '/^```/d'
  echo "figure.savefig('$docs/papers-subfigures.png', dpi=200)"
  echo "heads.save('$docs/papers-columns.png', size='7x3.6in', points=8, font='serif', title='', colors='greys')"
} | python -)
# The slides of the lecture, by its own commands.
sed -n 's|^attnviz \(.*\) -o \(.*\)\.png$|\2 \1|p' lecture.md | while read -r number command; do
  for theme in light dark; do
    eval "attnviz $command --theme $theme --dpi 72 -o lecture/$number-$theme.png -q" < /dev/null
  done
done
