//! Sorting as in Go's `sort.Slice`: a pattern-defeating quicksort. The order of equal elements depends on its steps and is visible, so the
//! steps are equal to Go's. Terminates for every `less`, even for a contradictory one.

use std::ops::Range;

/// Ranges of up to this length are sorted by insertion.
const INSERTED: usize = 12;
/// From this length on, the pivot is the median of medians, and elements out of order may be shifted.
const LONG: usize = 50;
/// The number of pairs out of order that [`Sorter::shift`] corrects.
const MAX_SHIFTED: usize = 5;
/// The number of swaps to find three medians and their median, if all elements are in descending order.
const MAX_SWAPS: usize = 12;

/// Sorts by `less`.
pub(super) fn sort<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let length = items.len();
    Sorter { items, less }.sort(0..length, length.checked_ilog2().map_or(0, |bits| bits + 1));
}

struct Sorter<'i, T, F> {
    items: &'i mut [T],
    less: F,
}

#[expect(
    clippy::indexing_slicing,
    reason = "positions are those of Go's algorithm, all within the range that it sorts"
)]
impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
    }

    /// `unbalanced` is the number of bad partitions that are still allowed.
    fn sort(&mut self, mut range: Range<usize>, mut unbalanced: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        while range.len() > INSERTED {
            if unbalanced == 0 {
                return self.heap_sort(range);
            }
            if !was_balanced {
                self.break_patterns(&range);
                unbalanced -= 1;
            }
            let (mut pivot, swaps) = self.pivot(&range);
            if swaps == MAX_SWAPS {
                self.items[range.clone()].reverse();
                pivot = range.end - 1 - (pivot - range.start);
            }
            let seems_sorted = swaps == 0 || swaps == MAX_SWAPS;
            if was_balanced && was_partitioned && seems_sorted && self.shift(&range) {
                return;
            }
            // No element is less than the one before the range, so elements equal to that one are in place.
            if range.start > 0 && !self.less(range.start - 1, pivot) {
                range.start = self.partition_equal(&range, pivot);
                continue;
            }
            let middle;
            (middle, was_partitioned) = self.partition(&range, pivot);
            let (left, right) = (range.start..middle, middle + 1..range.end);
            was_balanced = left.len().min(right.len() + 1) >= range.len() / 8;
            // Recursion sorts only the shorter part, so that it is never deep.
            let (shorter, longer) = if left.len() < right.len() + 1 { (left, right) } else { (right, left) };
            self.sort(shorter, unbalanced);
            range = longer;
        }
        for at in range.clone().skip(1) {
            self.sink(at, range.start);
        }
    }

    /// Swaps an element back to its place.
    fn sink(&mut self, mut at: usize, start: usize) {
        while at > start && self.less(at, at - 1) {
            self.swap(at, at - 1);
            at -= 1;
        }
    }

    /// The position of the median of a sample, and the number of swaps to find it. Moves no element.
    fn pivot(&self, range: &Range<usize>) -> (usize, usize) {
        let (start, quarter, mut swaps) = (range.start, range.len() / 4, 0);
        let mut three = [1, 2, 3].map(|quarters| start + quarter * quarters);
        if range.len() >= LONG {
            three = three.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let median = self.median(three, &mut swaps);
        (median, swaps)
    }

    fn median(&self, mut three: [usize; 3], swaps: &mut usize) -> usize {
        for (a, b) in [(0, 1), (1, 2), (0, 1)] {
            if self.less(three[b], three[a]) {
                three.swap(a, b);
                *swaps += 1;
            }
        }
        three[1]
    }

    /// Moves the pivot to its place, with lesser elements before it. Also returns whether all elements were in place already.
    fn partition(&mut self, range: &Range<usize>, pivot: usize) -> (usize, bool) {
        let first = range.start;
        self.swap(first, pivot);
        // `low` and `high` are the next elements to compare.
        let (mut low, mut high) = (first + 1, range.end - 1);
        let mut was_partitioned = true;
        loop {
            while low <= high && self.less(low, first) {
                low += 1;
            }
            while low <= high && !self.less(high, first) {
                high -= 1;
            }
            if low > high {
                self.swap(high, first);
                return (high, was_partitioned);
            }
            was_partitioned = false;
            self.swap(low, high);
            (low, high) = (low + 1, high - 1);
        }
    }

    /// Moves the elements that equal the pivot to the front, and returns their end.
    fn partition_equal(&mut self, range: &Range<usize>, pivot: usize) -> usize {
        let first = range.start;
        self.swap(first, pivot);
        let (mut low, mut high) = (first + 1, range.end - 1);
        loop {
            while low <= high && !self.less(first, low) {
                low += 1;
            }
            while low <= high && self.less(first, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            (low, high) = (low + 1, high - 1);
        }
    }

    /// Sorts a nearly sorted range. Returns whether the range is sorted then.
    fn shift(&mut self, range: &Range<usize>) -> bool {
        let mut at = range.start + 1;
        for _ in 0..MAX_SHIFTED {
            while at < range.end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == range.end {
                return true;
            }
            if range.len() < LONG {
                return false;
            }
            self.swap(at, at - 1);
            if at - range.start >= 2 {
                self.sink(at - 1, 0);
            }
            for next in at + 1..range.end {
                if !self.less(next, next - 1) {
                    break;
                }
                self.swap(next, next - 1);
            }
        }
        false
    }

    /// Swaps the three middle elements with pseudorandom others, equal ones in every run.
    fn break_patterns(&mut self, range: &Range<usize>) {
        let length = range.len();
        let mut random = length as u64;
        let mask = (1_u64 << (length.ilog2() + 1)) - 1;
        let middle = range.start + length / 4 * 2;
        for at in middle - 1..=middle + 1 {
            // An xorshift generator.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = (random & mask) as usize;
            self.swap(at, range.start + if other >= length { other - length } else { other });
        }
    }

    fn heap_sort(&mut self, range: Range<usize>) {
        let (start, length) = (range.start, range.len());
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(start, root, length);
        }
        for end in (0..length).rev() {
            self.swap(start, start + end);
            self.sift_down(start, 0, end);
        }
    }

    fn sift_down(&mut self, start: usize, mut root: usize, end: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(start + child, start + child + 1) {
                child += 1;
            }
            if !self.less(start + root, start + child) {
                return;
            }
            self.swap(start + root, start + child);
            root = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_sorted_and_keeps_all_items(numbers in prop::collection::vec(0_u8..20, 0..300)) {
            let (mut sorted, mut expected) = (numbers.clone(), numbers);
            sort(&mut sorted, |a, b| a < b);
            expected.sort_unstable();
            prop_assert_eq!(sorted, expected);
        }

        #[test]
        fn ends_where_there_is_no_order(numbers in prop::collection::vec(any::<u32>(), 0..300)) {
            let mut sorted = numbers;
            sort(&mut sorted, |a, b| (a ^ b) % 3 == 0);
        }
    }
}
