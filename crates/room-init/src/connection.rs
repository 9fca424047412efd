//! A framed stream that also carries descriptors, never blocking.

use hothouse_room_wire::frame::{DESCRIPTOR_LIMIT, Message};
use hothouse_room_wire::{Frame, FrameBuffer, encode};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// A peer with more unsent replies than this is not reading, and is disconnected.
const BACKLOG_LIMIT: usize = 4 << 20;

/// One peer.
pub(crate) struct Connection {
    socket: OwnedFd,
    incoming: FrameBuffer,
    descriptors: VecDeque<OwnedFd>,
    outgoing: VecDeque<Outgoing>,
}

struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

/// The peer is gone, or sent something that is not a frame.
#[derive(Debug)]
pub(crate) struct Gone;

/// A whole frame with its descriptors.
pub(crate) struct Arrival {
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self::with(socket, FrameBuffer::default())
    }

    /// Creates a connection that accepts only frames of at most `limit` bytes.
    pub(crate) fn limited(socket: OwnedFd, limit: usize) -> Self {
        Self::with(socket, FrameBuffer::limited(limit))
    }

    fn with(socket: OwnedFd, incoming: FrameBuffer) -> Self {
        Self { socket, incoming, descriptors: VecDeque::new(), outgoing: VecDeque::new() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn interest(&self) -> PollFlags {
        match self.outgoing.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        }
    }

    /// Returns how many bytes of an incomplete frame are buffered.
    pub(crate) fn pending(&self) -> usize {
        self.incoming.pending()
    }

    /// Whether nothing is queued.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Reads available bytes. Returns `Gone` at the end of the stream.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) -> Result<(), Gone> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT as usize))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(scratch)],
            &mut control,
            flags,
        );
        let length = match message {
            Ok(message) if message.bytes == 0 => return Err(Gone),
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(Gone),
        };
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                self.descriptors.extend(rights);
            }
        }
        // A peer that sends descriptors without frames to claim them would exhaust our table.
        if self.descriptors.len() > 2 * usize::from(DESCRIPTOR_LIMIT) {
            return Err(Gone);
        }
        self.incoming.extend(&scratch[..length]);
        Ok(())
    }

    /// Returns the next whole frame.
    pub(crate) fn next_arrival(&mut self) -> Result<Option<Arrival>, Gone> {
        let Some(Frame { descriptors, body }) = self.incoming.next_frame().map_err(|_| Gone)?
        else {
            return Ok(None);
        };
        let wanted = usize::from(descriptors);
        if self.descriptors.len() < wanted {
            return Err(Gone);
        }
        Ok(Some(Arrival { body, descriptors: self.descriptors.drain(..wanted).collect() }))
    }

    /// Queues one message and sends as much as possible.
    pub(crate) fn send(
        &mut self,
        message: &impl Message,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Gone> {
        let count = u8::try_from(descriptors.len()).map_err(|_| Gone)?;
        let bytes = encode(message, count).map_err(|_| Gone)?;
        self.outgoing.push_back(Outgoing { bytes, sent: 0, descriptors });
        let waiting: usize = self.outgoing.iter().map(|frame| frame.bytes.len()).sum();
        if waiting > BACKLOG_LIMIT {
            return Err(Gone);
        }
        self.flush()
    }

    /// Sends queued bytes until the socket would block.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        while let Some(frame) = self.outgoing.front_mut() {
            match frame.send(&self.socket) {
                Ok(()) if frame.sent == frame.bytes.len() => drop(self.outgoing.pop_front()),
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }
}

impl Outgoing {
    fn send(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        let rest = [IoSlice::new(&self.bytes[self.sent..])];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT as usize))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let borrowed: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        if !borrowed.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let sent = rustix::net::sendmsg(socket, &rest, &mut control, flags)?;
        self.sent += sent;
        self.descriptors.clear();
        Ok(())
    }
}
