//! The dashboard's pages about recorded runs: from records to HTML, without side effects.
//!
//! [`place`] parses URLs, [`section`] lists the kinds of pages, [`list`] makes a table of records, [`detail`] shows one
//! record in full, [`page`] builds pages of them, [`compare`] shows runs side by side, [`data`] shows the tables of
//! databases. The daemon decides who may see a page, and reads the records.

pub mod code;
pub mod compare;
pub mod data;
pub mod detail;
pub mod list;
pub mod page;
pub mod place;
pub mod section;
pub mod spark;
pub mod text;
pub mod tree;
pub mod waterfall;

pub use section::Section;
