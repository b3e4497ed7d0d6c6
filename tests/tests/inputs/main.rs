//! Inputs of jobs: files and tables of all formats, and damaged ones.

mod bad_csv;
mod bad_input;
mod csv;
mod databases;
mod files;
mod formats_columnar;
mod formats_in;
mod json_lines;
mod part;
mod partition;
mod table_logs;
