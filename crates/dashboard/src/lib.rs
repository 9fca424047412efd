//! The dashboard's pages of what runs recorded: from records to HTML, without effects.
//!
//! [`place`] reads addresses, [`section`] lists the kinds of pages, [`list`] makes a table of records, [`detail`] shows one
//! record whole, [`page`] puts them into pages,
//! [`compare`] puts runs beside each other, [`data`] shows the tables of databases. Who may see a page, and where records come from, is the daemon's.

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
