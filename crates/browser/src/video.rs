//! Makes a video from pictures: Motion JPEG in an AVI, which needs no encoder.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::capture::VideoFrame;

/// The number of pictures per second.
const RATE: u32 = 10;

/// The maximum length of a video, in seconds.
const LONGEST: f64 = 120.0;

/// Builds a video; `None` without pictures.
pub fn avi(frames: &[VideoFrame]) -> Option<Vec<u8>> {
    let pictures: Vec<(f64, Vec<u8>)> = frames
        .iter()
        .filter_map(|frame| Some((frame.at, STANDARD.decode(&frame.data).ok()?)))
        .filter(|(_, picture)| picture.starts_with(b"\xff\xd8"))
        .collect();
    let (width, height) = pictures.iter().find_map(|(_, picture)| size(picture))?;
    let order = repeated(&pictures.iter().map(|(at, _)| *at).collect::<Vec<_>>());
    let (mut data, mut index) = (b"movi".to_vec(), Vec::new());
    for at in &order {
        let picture = &pictures[*at].1;
        let offset = u32::try_from(data.len()).ok()?;
        let length = u32::try_from(picture.len()).ok()?;
        chunk(&mut data, b"00dc", picture);
        index.extend_from_slice(b"00dc");
        for number in [0x10, offset, length] {
            index.extend_from_slice(&number.to_le_bytes());
        }
    }
    let count = u32::try_from(order.len()).ok()?;
    let mut body = b"AVI ".to_vec();
    chunk(&mut body, b"LIST", &header(u32::from(width), u32::from(height), count));
    chunk(&mut body, b"LIST", &data);
    chunk(&mut body, b"idx1", &index);
    let mut file = Vec::new();
    chunk(&mut file, b"RIFF", &body);
    Some(file)
}

/// Returns the picture to show at each tick: the browser sends one only when something has changed.
fn repeated(times: &[f64]) -> Vec<usize> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let length = (last - first).clamp(0.0, LONGEST);
    let step = 1.0 / f64::from(RATE);
    let (mut order, mut at, mut tick) = (Vec::new(), 0, 0.0);
    while tick <= length {
        while times.get(at + 1).is_some_and(|next| next - first <= tick) {
            at += 1;
        }
        order.push(at);
        tick += step;
    }
    order
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], bytes: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
    if bytes.len() % 2 == 1 {
        out.push(0);
    }
}

fn header(width: u32, height: u32, count: u32) -> Vec<u8> {
    let words = |numbers: &[u32]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let main = words(&[1_000_000 / RATE, 0, 0, 0x10, count, 0, 1, 0, width, height, 0, 0, 0, 0]);
    let mut stream = b"vidsMJPG".to_vec();
    stream.extend(words(&[0, 0, 0, 1, RATE, 0, count, 0, u32::MAX, 0]));
    stream.extend([0; 8]);
    let mut format = words(&[40, width, height]);
    format.extend([1, 0, 24, 0]);
    format.extend_from_slice(b"MJPG");
    format.extend(words(&[width * height * 3, 0, 0, 0, 0]));
    let mut streams = b"strl".to_vec();
    chunk(&mut streams, b"strh", &stream);
    chunk(&mut streams, b"strf", &format);
    let mut list = b"hdrl".to_vec();
    chunk(&mut list, b"avih", &main);
    chunk(&mut list, b"LIST", &streams);
    list
}

/// Reads the size of a JPEG from its frame header.
fn size(jpeg: &[u8]) -> Option<(u16, u16)> {
    let mut at = 2;
    loop {
        let marker = jpeg.get(at..at + 4)?;
        let length = usize::from(u16::from_be_bytes([marker[2], marker[3]]));
        match marker {
            [0xff, 0xc0..=0xc3, ..] => {
                let sides = jpeg.get(at + 5..at + 9)?;
                let height = u16::from_be_bytes([sides[0], sides[1]]);
                let width = u16::from_be_bytes([sides[2], sides[3]]);
                return (width > 0 && height > 0).then_some((width, height));
            }
            [0xff, ..] if length >= 2 => at += 2 + length,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg() -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe0\x00\x04ab".to_vec();
        bytes.extend(b"\xff\xc0\x00\x0b\x08\x00\x1e\x00\x28\x03\x00\x00\x00");
        bytes
    }

    #[test]
    fn pictures_become_a_video_that_lasts_as_long_as_they_did() {
        let frame = |at| VideoFrame { at, data: STANDARD.encode(jpeg()) };
        let video = avi(&[frame(10.0), frame(10.35), frame(11.0)]).unwrap();
        assert!(video.starts_with(b"RIFF") && &video[8..12] == b"AVI ");
        assert_eq!(
            usize::try_from(u32::from_le_bytes(video[4..8].try_into().unwrap())).unwrap(),
            video.len() - 8
        );
        let shown = video.windows(4).filter(|part| part == b"00dc").count() / 2;
        assert!((10..=11).contains(&shown), "a second has ten pictures: {shown}");
        assert_eq!(size(&jpeg()), Some((40, 30)));
    }

    #[test]
    fn what_is_not_a_picture_is_left_out() {
        assert_eq!(avi(&[]), None);
        let frame = |data: &str| VideoFrame { at: f64::NAN, data: data.into() };
        assert_eq!(avi(&[frame("!"), frame("aGk=")]), None);
        for cut in 0..jpeg().len() {
            size(&jpeg()[..cut]);
        }
    }
}
