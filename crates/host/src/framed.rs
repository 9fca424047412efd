//! Frames with descriptors over a unix socket, for asynchronous code.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use hothouse_room_wire::{FrameBuffer, decode, encode, frame::DESCRIPTOR_LIMIT};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixStream};

/// A socket that carries framed messages.
#[derive(Debug)]
pub struct Framed {
    socket: UnixStream,
    buffer: FrameBuffer,
    descriptors: VecDeque<OwnedFd>,
}

impl Framed {
    /// Wraps a socket.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, buffer: FrameBuffer::default(), descriptors: VecDeque::new() }
    }

    /// Wraps a socket that was connected by synchronous code.
    pub fn from_std(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self::new(UnixStream::from_std(socket)?))
    }

    /// Sends a message; its descriptors travel with the first byte.
    pub async fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let count = u8::try_from(descriptors.len()).map_err(io::Error::other)?;
        let bytes = encode(message, count).map_err(io::Error::other)?;
        let mut sent = 0;
        while sent < bytes.len() {
            let beside = if sent == 0 { descriptors } else { &[] };
            self.socket.writable().await?;
            let step = self.socket.try_io(Interest::WRITABLE, || {
                Ok(send_some(&self.socket, &bytes[sent..], beside)?)
            });
            match step {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for the next message; returns `None` at the end of the stream. Cancel-safe: no bytes are lost.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            if let Some(frame) = self.buffer.next_frame().map_err(io::Error::other)? {
                let count = usize::from(frame.descriptors).min(self.descriptors.len());
                let own = self.descriptors.drain(..count).collect();
                return Ok(Some((decode(&frame.body).map_err(io::Error::other)?, own)));
            }
            self.socket.readable().await?;
            let mut bytes = [0; 4096];
            let step = self.socket.try_io(Interest::READABLE, || {
                Ok(receive_some(&self.socket, &mut bytes, &mut self.descriptors)?)
            });
            match step {
                Ok(0) => return Ok(None),
                Ok(count) => self.buffer.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

pub fn send_some(
    socket: impl AsFd,
    bytes: &[u8],
    beside: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT as usize))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !beside.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(beside));
    }
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )
}

fn receive_some(
    socket: impl AsFd,
    bytes: &mut [u8],
    descriptors: &mut VecDeque<OwnedFd>,
) -> rustix::io::Result<usize> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTOR_LIMIT as usize))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            descriptors.extend(rights);
        }
    }
    Ok(message.bytes)
}
