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
attnviz example show simplified -o steps.gif --dpi 60 -q
attnviz run "The old dogs slept because they were tired." --model toy -o toy.png --dpi 110 -q
attnviz inspect "$T" -o overview.png --size 16:9 --dpi 110 -q
attnviz learn agreement -o agreement.gif -q
attnviz run "the keys near the cabinet ?" --model agreement --live -o example.html -q
if command -v chromium > /dev/null; then  # which draws the page as people see it
  chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,920 --virtual-time-budget=4000 \
    --screenshot=page.png example.html 2> /dev/null
fi
# The figures of pictures.md: its command, and its Python as it stands there.
attnviz inspect "$T" --layer 5 --head 11 --title "" --size 3.3x3in --points 8 --font serif -o papers-column.png -q
docs=$PWD
(cd "$(mktemp -d)" && {
  sed -n '/^```python$/,/^```$/p' "$docs/pictures.md" | sed '/^```/d'
  echo "figure.savefig('$docs/papers-subfigures.png', dpi=200)"
  echo "heads.save('$docs/papers-columns.png', size='7x3.6in', points=8, font='serif', title='', colors='greys')"
} | python -)
# The slides of the lecture, by its own commands.
sed -n 's|^attnviz \(.*\) -o \(.*\)\.png$|\2 \1|p' lecture.md | while read -r number command; do
  for theme in light dark; do
    (cd .. && eval "attnviz $command --theme $theme --dpi 72 -o docs/lecture/$number-$theme.png -q" < /dev/null)
  done
done
