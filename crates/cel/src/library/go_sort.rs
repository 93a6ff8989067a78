//! Go's unstable sort, step by step: elements that compare equal end where `sort.Slice` leaves them.
//!
//! Upstream counterpart: Go's `sort` package (pattern-defeating quicksort with a generator that is seeded by the
//! length).

type Less<'f, T> = &'f mut dyn FnMut(&T, &T) -> bool;

/// Slices up to this length are sorted by insertion, which is stable.
const INSERTION: usize = 12;
/// From this length on a pivot is the median of three medians, and short runs are repaired in place.
const LONG: usize = 50;

/// What the choice of the pivot reveals about the slice.
#[derive(PartialEq, Eq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

pub(super) fn sort<T>(data: &mut [T], less: Less<'_, T>) {
    let limit = usize::BITS - data.len().leading_zeros();
    quick(data, 0, data.len(), limit, less);
}

fn quick<T>(data: &mut [T], mut from: usize, mut to: usize, mut limit: u32, less: Less<'_, T>) {
    let mut balanced = true;
    let mut partitioned = true;
    loop {
        let length = to - from;
        if length <= INSERTION {
            insertion(&mut data[from..to], less);
            return;
        }
        if limit == 0 {
            heap(&mut data[from..to], less);
            return;
        }
        if !balanced {
            scatter(&mut data[from..to]);
            limit -= 1;
        }
        let (mut pivot, mut hint) = choose_pivot(data, from, to, less);
        if hint == Hint::Decreasing {
            data[from..to].reverse();
            pivot = (to - 1) - (pivot - from);
            hint = Hint::Increasing;
        }
        if balanced && partitioned && hint == Hint::Increasing && repair(data, from, to, less) {
            return;
        }
        if from > 0 && !less(&data[from - 1], &data[pivot]) {
            from = partition_equal(data, from, to, pivot, less);
            continue;
        }
        let (middle, was_partitioned) = partition(data, from, to, pivot, less);
        partitioned = was_partitioned;
        let (left, right) = (middle - from, to - middle);
        let threshold = length / 8;
        if left < right {
            balanced = left >= threshold;
            quick(data, from, middle, limit, less);
            from = middle + 1;
        } else {
            balanced = right >= threshold;
            quick(data, middle + 1, to, limit, less);
            to = middle;
        }
    }
}

fn insertion<T>(data: &mut [T], less: Less<'_, T>) {
    for i in 1..data.len() {
        let mut j = i;
        while j > 0 && less(&data[j], &data[j - 1]) {
            data.swap(j, j - 1);
            j -= 1;
        }
    }
}

fn heap<T>(data: &mut [T], less: Less<'_, T>) {
    let length = data.len();
    for root in (0..=(length - 1) / 2).rev() {
        sift_down(data, root, length, less);
    }
    for end in (0..length).rev() {
        data.swap(0, end);
        sift_down(data, 0, end, less);
    }
}

fn sift_down<T>(data: &mut [T], mut root: usize, end: usize, less: Less<'_, T>) {
    loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && less(&data[child], &data[child + 1]) {
            child += 1;
        }
        if !less(&data[root], &data[child]) {
            return;
        }
        data.swap(root, child);
        root = child;
    }
}

/// Moves smaller elements before the pivot; returns the position of the pivot, and whether the slice was already
/// partitioned.
fn partition<T>(data: &mut [T], from: usize, to: usize, pivot: usize, less: Less<'_, T>) -> (usize, bool) {
    data.swap(from, pivot);
    let (mut i, mut j) = (from + 1, to - 1);
    let mut untouched = true;
    loop {
        while i <= j && less(&data[i], &data[from]) {
            i += 1;
        }
        while i <= j && !less(&data[j], &data[from]) {
            j -= 1;
        }
        if i > j {
            break;
        }
        data.swap(i, j);
        i += 1;
        j -= 1;
        untouched = false;
    }
    data.swap(j, from);
    (j, untouched)
}

/// Moves elements equal to the pivot to the front, if none is smaller; returns the start of the rest.
fn partition_equal<T>(data: &mut [T], from: usize, to: usize, pivot: usize, less: Less<'_, T>) -> usize {
    data.swap(from, pivot);
    let (mut i, mut j) = (from + 1, to - 1);
    loop {
        while i <= j && !less(&data[from], &data[i]) {
            i += 1;
        }
        while i <= j && less(&data[from], &data[j]) {
            j -= 1;
        }
        if i > j {
            return i;
        }
        data.swap(i, j);
        i += 1;
        j -= 1;
    }
}

/// Tries to finish a slice that is nearly sorted.
fn repair<T>(data: &mut [T], from: usize, to: usize, less: Less<'_, T>) -> bool {
    let mut i = from + 1;
    for _ in 0..5 {
        while i < to && !less(&data[i], &data[i - 1]) {
            i += 1;
        }
        if i == to {
            return true;
        }
        if to - from < LONG {
            return false;
        }
        data.swap(i, i - 1);
        if i - from >= 2 {
            // Upstream runs to the start of the whole slice here, not of the part.
            let mut j = i - 1;
            while j >= 1 && less(&data[j], &data[j - 1]) {
                data.swap(j, j - 1);
                j -= 1;
            }
        }
        if to - i >= 2 {
            let mut j = i + 1;
            while j < to && less(&data[j], &data[j - 1]) {
                data.swap(j, j - 1);
                j += 1;
            }
        }
    }
    false
}

/// Swaps three elements of the middle with others, to break patterns that make bad pivots.
fn scatter<T>(data: &mut [T]) {
    let length = data.len();
    if length < 8 {
        return;
    }
    let mut random = length as u64;
    let mask = (1u64 << (usize::BITS - length.leading_zeros())) - 1;
    let middle = length / 4 * 2;
    for index in middle - 1..=middle + 1 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut other = (random & mask) as usize;
        if other >= length {
            other -= length;
        }
        data.swap(index, other);
    }
}

fn choose_pivot<T>(data: &[T], from: usize, to: usize, less: Less<'_, T>) -> (usize, Hint) {
    let length = to - from;
    let quarter = length / 4;
    let (mut i, mut j, mut k) = (from + quarter, from + quarter * 2, from + quarter * 3);
    let mut swaps = 0;
    if length >= 8 {
        if length >= LONG {
            i = median(data, [i - 1, i, i + 1], &mut swaps, less);
            j = median(data, [j - 1, j, j + 1], &mut swaps, less);
            k = median(data, [k - 1, k, k + 1], &mut swaps, less);
        }
        j = median(data, [i, j, k], &mut swaps, less);
    }
    let hint = match swaps {
        0 => Hint::Increasing,
        12 => Hint::Decreasing,
        _ => Hint::Unknown,
    };
    (j, hint)
}

fn median<T>(data: &[T], [mut a, mut b, mut c]: [usize; 3], swaps: &mut u32, less: Less<'_, T>) -> usize {
    let mut order = |x: &mut usize, y: &mut usize| {
        if less(&data[*y], &data[*x]) {
            *swaps += 1;
            std::mem::swap(x, y);
        }
    };
    order(&mut a, &mut b);
    order(&mut b, &mut c);
    order(&mut a, &mut b);
    b
}
