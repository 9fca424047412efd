//! Frames: between room-init and the daemon, `sudo` and room-init, clients and the daemon.

use std::fmt::Debug;

use hothouse_api::exec::{Ask, Hello, Say};
use hothouse_room_wire::frame::{BODY_LIMIT, DESCRIPTOR_LIMIT};
use hothouse_room_wire::{
    Boot, Elevate, Elevated, FrameBuffer, Reply, Request, decode, dns, encode,
};
use serde::{Serialize, de::DeserializeOwned};

/// Checks a stream of frames, split where the first byte says. However it is split, the same frames come out, and no
/// more bytes are kept than came in.
pub fn frames(bytes: &[u8]) {
    let Some((step, stream)) = bytes.split_first() else { return };
    let whole = collect(stream.chunks(stream.len().max(1)));
    let cut = collect(stream.chunks(usize::from(*step).max(1)));
    assert_eq!(whole, cut, "where a stream is cut makes no difference");
    assert!(whole.iter().map(Vec::len).sum::<usize>() <= stream.len());
}

/// Collects the bodies of all complete frames, until the stream is refused.
fn collect<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut buffer = FrameBuffer::default();
    let (mut bodies, mut came) = (Vec::new(), 0);
    for part in parts {
        came += part.len();
        buffer.extend(part);
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= BODY_LIMIT);
                    assert!(frame.descriptors <= DESCRIPTOR_LIMIT);
                    bodies.push(frame.body);
                }
                Ok(None) => break,
                Err(_) => return bodies,
            }
        }
        assert!(buffer.pending() <= came);
    }
    bodies
}

/// Checks messages from room-init to the daemon, and those that the daemon could be made to send to it.
pub fn room_answers(bytes: &[u8]) {
    same_again::<Reply>(bytes);
    same_again::<Request>(bytes);
    same_again::<Boot>(bytes);
}

/// Checks messages between the `sudo` of a room and room-init.
pub fn sudo(bytes: &[u8]) {
    same_again::<Elevate>(bytes);
    same_again::<Elevated>(bytes);
}

/// Checks messages between client and daemon about a command.
pub fn exec(bytes: &[u8]) {
    same_again::<Hello>(bytes);
    same_again::<Ask>(bytes);
    same_again::<Say>(bytes);
}

/// Checks that a decoded value, encoded and decoded again, is the same.
fn same_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes) else { return };
    let frame = encode(&value, 0).expect("what fitted in a frame fits again");
    let body = &frame[hothouse_room_wire::frame::HEAD..];
    assert_eq!(decode::<T>(body).as_ref(), Ok(&value));
}

/// Checks a DNS question: the answer is never longer than the question, and is not itself answered.
pub fn name_questions(bytes: &[u8]) {
    if let Some(answer) = dns::servfail(bytes) {
        assert!(answer.len() <= bytes.len());
        assert_eq!(answer[..2], bytes[..2], "it carries the question's id");
        assert_eq!(dns::servfail(&answer), None, "an answer is no question: two of us cannot chat");
    }
}
