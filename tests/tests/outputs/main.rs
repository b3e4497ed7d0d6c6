//! Outputs of jobs: rows in all formats, and files of the entry script.

mod compressed_outputs;
mod deterministic;
mod files_out;
mod joined_outputs;
mod output_formats;
mod output_parts;
mod typed_outputs;
