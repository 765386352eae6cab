//! The program `db_bench`, as a user and a script meet it.

mod beyond;
mod report;
mod support;
