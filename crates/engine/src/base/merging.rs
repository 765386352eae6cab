//! K-way merge of sorted sources, both directions.
