//! Native code from IR regions.
