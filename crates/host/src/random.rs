//! Random bytes from the kernel.

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .expect("the kernel gives random bytes once it has started");
    }
    bytes
}
