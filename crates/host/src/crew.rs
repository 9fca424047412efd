//! A small thread pool that works through jobs, each of which may add more.

use std::{
    num::NonZero,
    sync::{Condvar, Mutex, PoisonError},
    thread,
};

/// State shared by the threads.
struct Desk<J, E> {
    jobs: Vec<J>,
    busy: usize,
    failure: Option<E>,
}

/// Works through `jobs` and every job that `work` adds. The first failure stops it.
///
/// The newest job goes first, so a walk is depth-first and its list stays short.
pub(crate) fn work_through<J: Send, E: Send>(
    jobs: Vec<J>,
    work: impl Fn(J, &mut Vec<J>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let desk = Mutex::new(Desk { jobs, busy: 0, failure: None });
    let changed = Condvar::new();
    let crew = thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8);
    thread::scope(|scope| {
        for _ in 1..crew {
            // If no thread can be started, the others do the work; the calling thread always takes
            // part.
            let thread = thread::Builder::new();
            thread.spawn_scoped(scope, || serve(&desk, &changed, &work)).ok();
        }
        serve(&desk, &changed, &work);
    });
    let desk = desk.into_inner().unwrap_or_else(PoisonError::into_inner);
    desk.failure.map_or(Ok(()), Err)
}

/// Works through `jobs` in the calling thread only, for a process that must stay single-threaded.
pub(crate) fn work_alone<J, E>(
    mut jobs: Vec<J>,
    work: impl Fn(J, &mut Vec<J>) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(job) = jobs.pop() {
        work(job, &mut jobs)?;
    }
    Ok(())
}

/// Applies `work` to each item in parallel, and returns the results in order.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if let [only] = items {
        return vec![work(only)];
    }
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let jobs: Vec<usize> = (0..items.len()).collect();
    let done = work_through(jobs, |at, _| {
        let result = work(&items[at]);
        *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok::<(), std::convert::Infallible>(())
    });
    done.expect("this work cannot fail");
    let results = results.into_iter();
    results
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn serve<J, E>(
    desk: &Mutex<Desk<J, E>>,
    changed: &Condvar,
    work: &impl Fn(J, &mut Vec<J>) -> Result<(), E>,
) {
    let mut held = desk.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if held.failure.is_some() {
            return;
        }
        let Some(job) = held.jobs.pop() else {
            if held.busy == 0 {
                return;
            }
            held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        held.busy += 1;
        drop(held);
        let mut more = Vec::new();
        let outcome = work(job, &mut more);
        held = desk.lock().unwrap_or_else(PoisonError::into_inner);
        held.busy -= 1;
        held.jobs.append(&mut more);
        if let Err(error) = outcome {
            held.failure.get_or_insert(error);
        }
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn jobs_that_bring_jobs_are_all_done() {
        let sum = AtomicU64::new(0);
        let outcome: Result<(), ()> = work_through(vec![1_u64], |job, more| {
            sum.fetch_add(1, Ordering::Relaxed);
            if job < 512 {
                more.extend([job * 2, job * 2 + 1]);
            }
            Ok(())
        });
        assert_eq!((outcome, sum.into_inner()), (Ok(()), 1023));
    }

    #[test]
    fn the_first_failure_ends_the_work() {
        let done = AtomicU64::new(0);
        let outcome = work_through((0..100_000).collect(), |job: u64, _| {
            done.fetch_add(1, Ordering::Relaxed);
            if job == 99_999 { Err(job) } else { Ok(()) }
        });
        assert_eq!(outcome, Err(99_999));
        assert!(done.into_inner() < 100_000);
    }
}
