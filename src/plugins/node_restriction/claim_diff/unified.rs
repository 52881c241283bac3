//! Unified diffs by the algorithm of Python's difflib, which Go's package also uses: the longest common block first, then the
//! parts on either side of the block.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// The length from which on popular lines do not start a block. A line is popular if more than one in a hundred lines equals it.
const POPULAR_FROM_LINES: usize = 200;
/// The maximum number of lines, because the comparison takes quadratic time. A claim that the API server stores is shorter.
const MAX_LINES: usize = 2000;

/// A block of lines that occurs in both texts.
#[derive(Clone, Copy)]
struct Block {
    old: usize,
    new: usize,
    size: usize,
}

/// A stretch of both texts, equal or different.
#[derive(Clone, Copy)]
struct Stretch {
    is_same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// Returns the diff. Every line must end with a line feed.
pub(super) fn of(old: &[String], new: &[String]) -> String {
    if old.len() > MAX_LINES || new.len() > MAX_LINES {
        return "too much to show".to_owned();
    }
    let mut diff = String::new();
    for group in groups(&stretches(&blocks(old, new))) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (of_old, of_new) = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        let _ = writeln!(diff, "@@ -{of_old} +{of_new} @@");
        for stretch in group {
            let of_old = old.get(stretch.old.0..stretch.old.1).unwrap_or_default();
            let of_new = new.get(stretch.new.0..stretch.new.1).unwrap_or_default();
            let mut add = |mark: char, lines: &[String]| {
                lines.iter().for_each(|line| diff.extend([mark.to_string().as_str(), line]));
            };
            if stretch.is_same {
                add(' ', of_old);
            } else {
                add('-', of_old);
                add('+', of_new);
            }
        }
    }
    diff
}

/// `GetMatchingBlocks`: the blocks in order. Adjacent blocks are merged, and an empty block ends the list.
fn blocks(old: &[String], new: &[String]) -> Vec<Block> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= POPULAR_FROM_LINES {
        places.retain(|_, indices| indices.len() <= new.len() / 100 + 1);
    }
    let (mut found, mut pending) = (Vec::new(), vec![(0..old.len(), 0..new.len())]);
    while let Some((in_old, in_new)) = pending.pop() {
        let block = longest(old, new, &places, &in_old, &in_new);
        if block.size == 0 {
            continue;
        }
        let (old_end, new_end) = (block.old + block.size, block.new + block.size);
        if in_old.start < block.old && in_new.start < block.new {
            pending.push((in_old.start..block.old, in_new.start..block.new));
        }
        if old_end < in_old.end && new_end < in_new.end {
            pending.push((old_end..in_old.end, new_end..in_new.end));
        }
        found.push(block);
    }
    found.sort_by_key(|block| block.old);
    let mut blocks: Vec<Block> = Vec::new();
    for block in found {
        match blocks.last_mut() {
            Some(last) if last.old + last.size == block.old && last.new + last.size == block.new => {
                last.size += block.size;
            }
            _ => blocks.push(block),
        }
    }
    blocks.push(Block { old: old.len(), new: new.len(), size: 0 });
    blocks
}

/// `findLongestMatch`: among the longest blocks, the first in the old text, and among these the first in the new text.
fn longest(
    old: &[String],
    new: &[String],
    places: &HashMap<&str, Vec<usize>>,
    in_old: &Range<usize>,
    in_new: &Range<usize>,
) -> Block {
    let mut best = Block { old: in_old.start, new: in_new.start, size: 0 };
    // The length of the block that ends before each position of the new text, at the previous old line.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (index, line) in old.iter().enumerate().take(in_old.end).skip(in_old.start) {
        let mut next = HashMap::new();
        let here = places.get(line.as_str()).map(Vec::as_slice).unwrap_or_default();
        for &place in here.iter().filter(|place| in_new.contains(place)) {
            let size = lengths.get(&place).copied().unwrap_or_default() + 1;
            next.insert(place + 1, size);
            if size > best.size {
                best = Block { old: index + 1 - size, new: place + 1 - size, size };
            }
        }
        lengths = next;
    }
    // Extends the block by equal lines, including popular lines.
    while best.old > in_old.start && best.new > in_new.start && old.get(best.old - 1) == new.get(best.new - 1) {
        best = Block { old: best.old - 1, new: best.new - 1, size: best.size + 1 };
    }
    while best.old + best.size < in_old.end
        && best.new + best.size < in_new.end
        && old.get(best.old + best.size) == new.get(best.new + best.size)
    {
        best.size += 1;
    }
    best
}

/// `GetOpCodes`.
fn stretches(blocks: &[Block]) -> Vec<Stretch> {
    let (mut old, mut new) = (0, 0);
    let mut stretches = Vec::new();
    for block in blocks {
        if old < block.old || new < block.new {
            stretches.push(Stretch { is_same: false, old: (old, block.old), new: (new, block.new) });
        }
        (old, new) = (block.old + block.size, block.new + block.size);
        if block.size > 0 {
            stretches.push(Stretch { is_same: true, old: (block.old, old), new: (block.new, new) });
        }
    }
    stretches
}

/// `GetGroupedOpCodes`: groups close changes together with their context.
fn groups(stretches: &[Stretch]) -> Vec<Vec<Stretch>> {
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    let last = stretches.len().saturating_sub(1);
    for (index, &stretch) in stretches.iter().enumerate() {
        if !stretch.is_same {
            group.push(stretch);
            continue;
        }
        let head = Stretch {
            old: (stretch.old.0, stretch.old.1.min(stretch.old.0 + CONTEXT)),
            new: (stretch.new.0, stretch.new.1.min(stretch.new.0 + CONTEXT)),
            ..stretch
        };
        let tail = Stretch {
            old: (stretch.old.0.max(stretch.old.1.saturating_sub(CONTEXT)), stretch.old.1),
            new: (stretch.new.0.max(stretch.new.1.saturating_sub(CONTEXT)), stretch.new.1),
            ..stretch
        };
        if index == 0 {
            group.push(tail);
        } else if index == last {
            group.push(head);
        } else if stretch.old.1 - stretch.old.0 > 2 * CONTEXT {
            group.push(head);
            groups.push(std::mem::replace(&mut group, vec![tail]));
        } else {
            group.push(stretch);
        }
    }
    if group.iter().any(|stretch| !stretch.is_same) {
        groups.push(group);
    }
    groups
}

/// `formatRangeUnified`.
fn range(start: usize, stop: usize) -> String {
    match stop - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> String {
        let lines = |text: &str| text.split_inclusive(' ').map(|line| format!("{}\n", line.trim())).collect::<Vec<_>>();
        of(&lines(old), &lines(new)).replace('\n', "|")
    }

    /// The expected diffs are the output of Python's difflib.
    #[test]
    fn changes_stand_between_three_lines_of_what_is_around_them() {
        let table = [
            ("a b c", "a b c", ""),
            ("a b c d e f g h", "a b c d X f g h", "@@ -2,7 +2,7 @@| b| c| d|-e|+X| f| g| h|"),
            ("a b c", "a b c d", "@@ -1,3 +1,4 @@| a| b| c|+d|"),
            ("a", "b", "@@ -1 +1 @@|-a|+b|"),
            (
                "1 a b c d e f g 2",
                "3 a b c d e f g 4",
                "@@ -1,4 +1,4 @@|-1|+3| a| b| c|@@ -6,4 +6,4 @@| e| f| g|-2|+4|",
            ),
            ("1 a b c d e f 2", "3 a b c d e f 4", "@@ -1,8 +1,8 @@|-1|+3| a| b| c| d| e| f|-2|+4|"),
            ("a b", "a c a b", "@@ -1,2 +1,4 @@|+a|+c| a| b|"),
        ];
        for (old, new, want) in table {
            assert_eq!(diff(old, new), want, "{old} -> {new}");
        }
    }

    #[test]
    fn long_texts_are_not_compared() {
        let long = vec!["a\n".to_owned(); MAX_LINES + 1];
        assert_eq!(of(&long, &[]), "too much to show");
    }
}
