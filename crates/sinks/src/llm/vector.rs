//! Embeddings: vectors computed from the text alone.

use aws_lc_rs::digest;

/// The maximum number of floats in a response.
pub(super) const MOST_NUMBERS: usize = 1 << 20;

/// Computes a vector of length 1: the same for the same text.
pub(super) fn unit_vector(text: &str, count: usize) -> Vec<f32> {
    let block = |at: usize| {
        let seed = format!("{at} {text}");
        let hash = digest::digest(&digest::SHA256, seed.as_bytes());
        let numbers: Vec<f32> = hash.as_ref().iter().map(|byte| f32::from(*byte) - 127.5).collect();
        numbers
    };
    let mut numbers: Vec<f32> = (0..count.div_ceil(32)).flat_map(block).take(count).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.iter_mut().for_each(|number| *number /= length);
    numbers
}
