//! The type and dimensions of an image, from its first bytes. Nothing is decoded: only headers are
//! parsed.

use hothouse_model::record::bodies::MediaSize;

/// How much of an object is read. Photographs may have a preview before their size.
pub const LOOKED_AT: usize = 256 << 10;

/// The maximum number of skipped parts of a file.
const STEPS: usize = 4096;

/// Parses width and height.
type Reader = fn(&[u8]) -> Option<(u32, u32)>;

/// Measures an image by its first bytes.
pub fn measure(head: &[u8]) -> Option<MediaSize> {
    let head = &head[..head.len().min(LOOKED_AT)];
    const READERS: [(&str, Reader); 6] =
        [("png", png), ("jpeg", jpeg), ("gif", gif), ("webp", webp), ("bmp", bmp), ("avif", avif)];
    let found = READERS.iter().find_map(|(format, read)| Some((*format, read(head)?)));
    found.map(|(format, (width, height))| MediaSize { format: format.to_owned(), width, height })
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn big16(from: &[u8], at: usize) -> Option<u32> {
    Some(u16::from_be_bytes(bytes(from, at)?).into())
}

fn big32(from: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes(from, at)?))
}

fn little16(from: &[u8], at: usize) -> Option<u32> {
    Some(u16::from_le_bytes(bytes(from, at)?).into())
}

fn little24(from: &[u8], at: usize) -> Option<u32> {
    let [a, b, c] = bytes(from, at)?;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

fn png(head: &[u8]) -> Option<(u32, u32)> {
    let is_png = head.starts_with(b"\x89PNG\r\n\x1a\n") && head.get(12..16)? == b"IHDR";
    if is_png { Some((big32(head, 16)?, big32(head, 20)?)) } else { None }
}

fn gif(head: &[u8]) -> Option<(u32, u32)> {
    let is_gif = head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a");
    if is_gif { Some((little16(head, 6)?, little16(head, 8)?)) } else { None }
}

/// Parses a bitmap. A negative height means that it starts at its top.
fn bmp(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"BM") {
        return None;
    }
    let number = |at| Some(i32::from_le_bytes(bytes(head, at)?).unsigned_abs());
    Some((number(18)?, number(22)?))
}

/// Walks the markers to the frame header, which has the size.
fn jpeg(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(&[0xff, 0xd8, 0xff]) {
        return None;
    }
    let mut at = 2;
    for _ in 0..STEPS {
        let [first, marker] = bytes(head, at)?;
        match (first, marker) {
            (0xff, 0xff) => at += 1,
            // Markers without a length.
            (0xff, 0x01 | 0xd0..=0xd8) => at += 2,
            // Frame headers, except tables (c4), extensions (c8) and conditioning (cc).
            (0xff, 0xc0..=0xcf) if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big16(head, at + 7)?, big16(head, at + 5)?));
            }
            (0xff, _) => at += 2 + big16(head, at + 2)? as usize,
            _ => return None,
        }
    }
    None
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    if !head.starts_with(b"RIFF") || head.get(8..12)? != b"WEBP" {
        return None;
    }
    match head.get(12..16)? {
        b"VP8 " => {
            let size = |at| Some(little16(head, at)? & 0x3fff);
            (head.get(23..26)? == [0x9d, 0x01, 0x2a]).then_some(())?;
            Some((size(26)?, size(28)?))
        }
        b"VP8L" => {
            (*head.get(20)? == 0x2f).then_some(())?;
            let bits = u32::from_le_bytes(bytes(head, 21)?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little24(head, 24)? + 1, little24(head, 27)? + 1)),
        _ => None,
    }
}

/// The boxes that lead to the size, and how many bytes precede the boxes inside each.
const AVIF_PATH: [(&[u8; 4], usize); 3] = [(b"meta", 4), (b"iprp", 0), (b"ipco", 0)];

fn avif(head: &[u8]) -> Option<(u32, u32)> {
    let brand = head.get(8..12)?;
    if head.get(4..8)? != b"ftyp" || !(brand == b"avif" || brand == b"avis") {
        return None;
    }
    let mut inside = head;
    for (name, skipped) in AVIF_PATH {
        inside = find_box(inside, name)?.get(skipped..)?;
    }
    let size = find_box(inside, b"ispe")?;
    Some((big32(size, 4)?, big32(size, 8)?))
}

/// Finds a box; an incomplete one is used as far as available.
fn find_box<'a>(mut all: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    for _ in 0..STEPS {
        let length = big32(all, 0)? as usize;
        let end = if length == 0 { all.len() } else { length.min(all.len()) };
        if all.get(4..8)? == name {
            return all.get(8..end);
        }
        // A length shorter than the header would loop forever.
        if length < 8 {
            return None;
        }
        all = all.get(length..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(head: &[u8]) -> Option<(String, u32, u32)> {
        measure(head).map(|found| (found.format, found.width, found.height))
    }

    fn jpeg_file() -> Vec<u8> {
        let mut file = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc4, 0, 3, 9];
        file.extend([0xff, 0xc2, 0, 11, 8, 0, 100, 0, 200, 1, 1, 17, 0]);
        file
    }

    fn boxed(name: &[u8; 4], inside: &[u8]) -> Vec<u8> {
        let length = u32::try_from(inside.len() + 8).unwrap().to_be_bytes();
        [&length, &name[..], inside].concat()
    }

    fn avif_file() -> Vec<u8> {
        let ispe = boxed(b"ispe", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 80]);
        let ipco = boxed(b"ipco", &[boxed(b"colr", &[0; 7]), ispe].concat());
        let meta = [vec![0; 4], boxed(b"hdlr", &[0; 9]), boxed(b"iprp", &ipco)].concat();
        [boxed(b"ftyp", b"avif\0\0\0\0"), boxed(b"meta", &meta)].concat()
    }

    #[test]
    fn images_are_measured_by_their_headers() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02";
        let gif = b"GIF89a\x0a\0\x14\0rest";
        let mut bmp = b"BM".to_vec();
        bmp.extend([0; 16]);
        bmp.extend([3, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff]);
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x20\0\x10\0";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x1f\xc0\x03\0";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x1f\0\0\x0f\0\0";
        for (head, format, width, height) in [
            (&png[..], "png", 640, 480),
            (&jpeg_file(), "jpeg", 200, 100),
            (gif, "gif", 10, 20),
            (&bmp, "bmp", 3, 4),
            (lossy, "webp", 32, 16),
            (lossless, "webp", 32, 16),
            (extended, "webp", 32, 16),
            (&avif_file(), "avif", 256, 80),
        ] {
            assert_eq!(size(head), Some((format.to_owned(), width, height)), "{format}");
        }
    }

    #[test]
    fn what_breaks_off_or_is_a_cycle_has_no_size() {
        for whole in [jpeg_file(), avif_file()] {
            for length in 0..whole.len() - 4 {
                assert_eq!(size(&whole[..length]), None);
            }
        }
        let mut circle = b"\0\0\0\x10ftypavif\0\0\0\0".to_vec();
        circle.extend([0, 0, 0, 1, b'f', b'r', b'e', b'e']);
        assert_eq!(size(&circle), None);
        assert_eq!(size(&[[0xff, 0xd8].as_slice(), &[0xff; 100_000]].concat()), None);
        for text in [&b""[..], b"BM", b"GIF", b"<svg width=\"3\" height=\"4\"/>", b"%PDF-1.7"] {
            assert_eq!(size(text), None);
        }
    }
}
