//! Instance controller: gates, conditions, quota, referenced data and write-back of one Instance (contract: cell.md §3–§6).

pub mod quota;
pub mod ready;
pub mod referenced_data;
