//! A second thread that frees the first from a pipe that a process in the room has locked.
//!
//! A process that splices from something slow (a socket, a terminal) into a pipe holds the pipe's
//! lock while it waits. A process that reads, measures or closes the other end then blocks
//! uninterruptibly. The output pipes of commands are such pipes, and PID 1 has one thread for
//! everything. So the guard watches that thread: if one iteration of its loop takes too long, it
//! stops and continues every process in the room, which makes a splice release the lock and
//! restart. The processes do not notice.
//!
//! The guard takes no lock that a fork could find held: it uses atomics and system calls, and
//! reads `/proc` only while the first thread is stuck in the kernel itself.

use crate::sys;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An iteration that takes longer than two of these is considered stuck.
const GLANCE: Duration = Duration::from_millis(250);

/// The guard goes to sleep after this many checks without work.
const PATIENCE: u32 = 8;

const STACK: usize = 64 << 10;

/// What the first thread holds.
pub(crate) struct Guard {
    shared: Arc<Shared>,
}

struct Shared {
    /// Odd while the first thread is working, even while it waits. Values never repeat.
    turn: AtomicU64,
    asleep: AtomicBool,
    bell: OwnedFd,
}

impl Guard {
    /// Starts the second thread, which sleeps until there is something to watch.
    pub(crate) fn start() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared =
            Arc::new(Shared { turn: AtomicU64::new(0), asleep: AtomicBool::new(false), bell });
        let watched = Arc::clone(&shared);
        std::thread::Builder::new().stack_size(STACK).spawn(move || watched.watch())?;
        Ok(Self { shared })
    }

    /// Begins an iteration, in which the first thread may touch pipes of the room.
    pub(crate) fn begin(&self) {
        self.shared.turn.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.swap(false, Ordering::SeqCst) {
            // Fails only if the counter is full, and then the guard is awake.
            let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Ends the iteration.
    pub(crate) fn end(&self) {
        self.shared.turn.fetch_add(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn watch(&self) {
        let mut watch = Watch::default();
        loop {
            match watch.glance(self.turn.load(Ordering::SeqCst)) {
                Sight::Moving => {}
                Sight::Stuck => loosen(),
                Sight::Idle => {
                    self.sleep_since(watch.last);
                    watch = Watch::default();
                }
            }
            std::thread::sleep(GLANCE);
        }
    }
}

impl Shared {
    fn sleep_since(&self, seen: u64) {
        self.asleep.store(true, Ordering::SeqCst);
        // An iteration that began in the meantime may not have seen that the guard needs a wake-up.
        if self.turn.load(Ordering::SeqCst) == seen {
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// The guard's state.
#[derive(Default)]
struct Watch {
    last: u64,
    quiet: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Sight {
    Moving,
    Stuck,
    Idle,
}

impl Watch {
    /// Decides what to do from the current iteration.
    fn glance(&mut self, turn: u64) -> Sight {
        let same = turn == self.last;
        self.last = turn;
        if !same {
            self.quiet = 0;
            return Sight::Moving;
        }
        if turn % 2 == 1 {
            return Sight::Stuck;
        }
        self.quiet += 1;
        if self.quiet < PATIENCE { Sight::Moving } else { Sight::Idle }
    }
}

/// Interrupts the system calls of every process of the room that is not already stopped.
fn loosen() {
    for pid in sys::pids().into_iter().filter(|pid| *pid != 1 && !sys::is_stopped(*pid)) {
        // It may have exited in the meantime.
        let _ = sys::kill(pid, libc::SIGSTOP);
        let _ = sys::kill(pid, libc::SIGCONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_does_not_end_is_stuck_and_a_wait_that_does_not_end_is_idle() {
        let mut watch = Watch::default();
        assert_eq!(watch.glance(1), Sight::Moving);
        assert_eq!(watch.glance(1), Sight::Stuck);
        assert_eq!(watch.glance(1), Sight::Stuck, "until it moves");
        assert_eq!(watch.glance(3), Sight::Moving);
        for _ in 0..PATIENCE - 1 {
            assert_eq!(watch.glance(4), Sight::Moving);
        }
        assert_eq!(watch.glance(4), Sight::Moving);
        assert_eq!(watch.glance(4), Sight::Idle);
    }
}
