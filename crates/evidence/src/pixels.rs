//! Screenshots: the difference between two, and thumbnails for a page.
//!
//! A browser in a room makes them, so they are decoded with limits, by a decoder without unsafe code.

use std::io::Cursor;

/// The maximum number of pixels.
const PIXELS: u64 = 40_000_000;

/// The maximum memory of the decoder.
const MEMORY: usize = 256 << 20;

/// The tolerance per colour value: font smoothing alone causes such differences.
const TOLERANCE: u8 = 24;

/// How much the unchanged part is faded in the image of a difference.
const FAINT: u16 = 4;

/// An image with four bytes per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    rgba: Vec<u8>,
}

/// The difference between two images.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureDifference {
    /// The number of pixels that differ, including those that only one image has.
    pub pixels: u64,
    pub of: u64,
    /// The differences in red, over a faded first image.
    pub shown: Picture,
}

impl PictureDifference {
    /// Returns the part that differs, in percent.
    pub fn percent(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "pixels are far below 2^53")]
        let percent = self.pixels as f64 * 100.0 / self.of.max(1) as f64;
        percent
    }
}

impl Picture {
    /// Makes a white image.
    #[cfg(test)]
    pub(crate) fn blank(width: u32, height: u32) -> Self {
        Self { width, height, rgba: vec![255; (width * height * 4) as usize] }
    }

    /// Decodes a PNG; `None` if it is invalid or too large.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder =
            png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MEMORY });
        decoder.set_transformations(
            png::Transformations::normalize_to_color8() | png::Transformations::ALPHA,
        );
        let mut reader = decoder.read_info().ok()?;
        let (width, height) = (reader.info().width, reader.info().height);
        if width == 0 || height == 0 || u64::from(width) * u64::from(height) > PIXELS {
            return None;
        }
        let mut bytes = vec![0; reader.output_buffer_size()?];
        let frame = reader.next_frame(&mut bytes).ok()?;
        bytes.truncate(frame.buffer_size());
        let rgba = match frame.color_type {
            png::ColorType::Rgba => bytes,
            png::ColorType::GrayscaleAlpha => {
                bytes.chunks_exact(2).flat_map(|p| [p[0], p[0], p[0], p[1]]).collect()
            }
            _ => return None,
        };
        let whole = rgba.len() as u64 == u64::from(width) * u64::from(height) * 4;
        whole.then_some(Self { width, height, rgba })
    }

    /// Encodes a PNG.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let written =
            encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.rgba));
        written.expect("a picture has as many bytes as its size says, and memory takes them");
        bytes
    }

    /// Returns the image scaled down to a maximum width, and cropped to a maximum height.
    pub fn thumbnail(&self, width: u32, height: u32) -> Self {
        let by = self.width.div_ceil(width.max(1)).max(1);
        let (small_width, small_height) =
            ((self.width / by).max(1), (self.height / by).max(1).min(height.max(1)));
        let mut rgba = Vec::with_capacity((small_width * small_height * 4) as usize);
        for y in 0..small_height {
            for x in 0..small_width {
                rgba.extend(self.mean(x * by, y * by, by));
            }
        }
        Self { width: small_width, height: small_height, rgba }
    }

    /// Returns the mean colour of a square.
    fn mean(&self, left: u32, top: u32, side: u32) -> [u8; 4] {
        let (mut sums, mut count) = ([0u64; 4], 0u64);
        for y in top..(top + side).min(self.height) {
            for x in left..(left + side).min(self.width) {
                let pixel = self.pixel(x, y).unwrap_or_default();
                sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += u64::from(value));
                count += 1;
            }
        }
        sums.map(|sum| u8::try_from(sum / count.max(1)).unwrap_or(u8::MAX))
    }

    fn pixel(&self, x: u32, y: u32) -> Option<[u8; 4]> {
        if x >= self.width || y >= self.height {
            return None;
        }
        let at = (y as usize * self.width as usize + x as usize) * 4;
        self.rgba.get(at..at + 4)?.try_into().ok()
    }
}

/// Compares two images pixel by pixel.
pub fn difference(one: &Picture, other: &Picture) -> PictureDifference {
    let (width, height) = (one.width.max(other.width), one.height.max(other.height));
    let mut rgba = Vec::with_capacity(width as usize * height as usize * 4);
    let mut pixels = 0;
    for y in 0..height {
        for x in 0..width {
            let (left, right) = (one.pixel(x, y), other.pixel(x, y));
            let same = match (left, right) {
                (Some(left), Some(right)) => is_near(left, right),
                _ => false,
            };
            pixels += u64::from(!same);
            rgba.extend(if same { faint(left.unwrap_or_default()) } else { [224, 36, 36, 255] });
        }
    }
    let of = u64::from(width) * u64::from(height);
    PictureDifference { pixels, of, shown: Picture { width, height, rgba } }
}

fn is_near(one: [u8; 4], other: [u8; 4]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.abs_diff(other) <= TOLERANCE)
}

fn faint([red, green, blue, _]: [u8; 4]) -> [u8; 4] {
    let grey = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let grey = 255 - (255 - grey) / FAINT;
    let grey = u8::try_from(grey).unwrap_or(u8::MAX);
    [grey, grey, grey, 255]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(width: u32, height: u32, value: u8) -> Picture {
        let rgba = [value, value, value, 255].repeat((width * height) as usize);
        Picture { width, height, rgba }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let picture = plain(7, 3, 90);
        assert_eq!(Picture::decode(&picture.encode()), Some(picture));
        for broken in [&b""[..], b"\x89PNG\r\n\x1a\n", b"GIF89a"] {
            assert_eq!(Picture::decode(broken), None);
        }
    }

    #[test]
    fn pixels_that_differ_are_counted_and_shown() {
        let (white, mut other) = (plain(10, 10, 255), plain(10, 10, 250));
        assert_eq!(difference(&white, &other).pixels, 0);
        other.rgba[0..3].copy_from_slice(&[0, 0, 0]);
        let found = difference(&white, &other);
        assert_eq!((found.pixels, found.of), (1, 100));
        assert!((found.percent() - 1.0).abs() < 1e-9);
        assert_eq!(found.shown.pixel(0, 0), Some([224, 36, 36, 255]));
        // A longer page differs by what was added.
        let longer = difference(&white, &plain(10, 12, 255));
        assert_eq!((longer.pixels, longer.of), (20, 120));
    }

    #[test]
    fn a_thumbnail_is_small_and_keeps_its_colours() {
        let small = plain(1280, 5000, 40).thumbnail(640, 800);
        assert_eq!((small.width, small.height), (640, 800));
        assert_eq!(small.pixel(3, 3), Some([40, 40, 40, 255]));
        assert_eq!(plain(1, 1, 1).thumbnail(640, 800), plain(1, 1, 1));
    }
}
