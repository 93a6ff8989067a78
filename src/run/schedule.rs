//! Runs pieces of work on several threads and delivers the results in order.
//!
//! Threads take the pieces one after the other, so that results arrive nearly in order and few of them wait; the caller
//! receives them in the order of the pieces, regardless of the number of threads.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

/// Runs all pieces, in the sequence of `order`, until `stop` returns true. `take` receives the results on this thread,
/// by the index of the piece, each as soon as those before it are complete; after a stop there may be gaps.
pub(super) fn in_order<W: Sync, R: Send>(
    works: &[W],
    order: &[usize],
    threads: usize,
    stop: &(impl Fn() -> bool + Sync),
    one: &(impl Fn(&W) -> R + Sync),
    mut take: impl FnMut(usize, R),
) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let mut waiting = BTreeMap::new();
    let mut expected = 0;
    let mut arrive = |index: usize, result: R| {
        waiting.insert(index, result);
        while let Some(result) = waiting.remove(&expected) {
            take(expected, result);
            expected += 1;
        }
    };
    match (threads > 1).then(|| pool.build().ok()).flatten() {
        // One thread suffices, or the system provides no more.
        None => {
            for &index in order {
                if stop() {
                    break;
                }
                if let Some(work) = works.get(index) {
                    arrive(index, one(work));
                }
            }
        }
        Some(pool) => {
            let next = AtomicUsize::new(0);
            let (sender, receiver) = mpsc::channel();
            pool.in_place_scope(|scope| {
                for _ in 0..threads {
                    let (sender, next) = (sender.clone(), &next);
                    scope.spawn(move |_| {
                        while !stop()
                            && let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed))
                            && let Some(work) = works.get(index)
                            && sender.send((index, one(work))).is_ok()
                        {}
                    });
                }
                drop(sender);
                for (index, result) in receiver {
                    arrive(index, result);
                }
            });
        }
    }
    for (index, result) in waiting {
        take(index, result);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn results_come_in_order() {
        let works: Vec<usize> = (0..500).collect();
        let backwards: Vec<usize> = works.iter().rev().copied().collect();
        for (threads, order) in [(1, &works), (2, &works), (7, &works), (1, &backwards), (3, &backwards)] {
            let mut taken = Vec::new();
            in_order(&works, order, threads, &|| false, &|work| work * 2, |index, result| {
                taken.push((index, result));
            });
            assert_eq!(taken, works.iter().map(|work| (*work, work * 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_known_after_a_stop_still_comes() {
        let works: Vec<usize> = (0..100).collect();
        let order: Vec<usize> = (1..100).collect();
        for threads in [1, 3] {
            let stop = AtomicBool::new(false);
            let one = |work: &usize| {
                stop.fetch_or(*work == 20, Ordering::Relaxed);
                *work
            };
            let mut taken = Vec::new();
            in_order(
                &works,
                &order,
                threads,
                &|| stop.load(Ordering::Relaxed),
                &one,
                |index, _| taken.push(index),
            );
            assert!(
                taken.is_sorted() && taken.contains(&20) && taken.len() < 99,
                "{taken:?}"
            );
        }
    }
}
