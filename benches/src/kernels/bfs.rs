//! Breadth-first search, level by level. In each level most threads have no work.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "breadth-first search",
    size: "256 Ki nodes, 2 Mi edges",
    group: Group::More,
    sources: sources!("benches/cuda/bfs.ptx", "bfs"),
    make,
};

const SOURCE: usize = 17;

fn make(scale: Scale) -> Work {
    let nodes = scale.pick(1 << 18, 600);
    let mut random = Random::new(15);
    let (mut starts, mut edges) = (vec![0i32], Vec::new());
    for _ in 0..nodes {
        let count = random.below(17);
        edges.extend((0..count).map(|_| random.below(nodes as u32) as i32));
        starts.push(edges.len() as i32);
    }
    let want = levels(&starts, &edges);
    let depth = *want.iter().max().expect("there are nodes");
    let mut work = Work::on(edges.len());
    let (starts, edges) = (work.input(&starts), work.input(&edges));
    let levels = work.output::<i32>(nodes);
    let (blocks, all) = (nodes.div_ceil(256), nodes as i32);
    work.launch("bfs_begin", blocks, 256, args![levels, all, SOURCE as i32]);
    for level in 0..depth {
        let arguments = args![starts, edges, levels, all, level];
        work.launch("bfs_level", blocks, 256, arguments);
    }
    work.numbers([nodes, SOURCE]);
    work.expect(levels, Values::exact(&want));
    work
}

/// Computes the distance of every node from the first node of the search; -1 for unreachable nodes.
fn levels(starts: &[i32], edges: &[i32]) -> Vec<i32> {
    let mut levels = vec![-1; starts.len() - 1];
    levels[SOURCE] = 0;
    let mut waiting = std::collections::VecDeque::from([SOURCE]);
    while let Some(node) = waiting.pop_front() {
        for edge in &edges[starts[node] as usize..starts[node + 1] as usize] {
            let to = *edge as usize;
            if levels[to] < 0 {
                levels[to] = levels[node] + 1;
                waiting.push_back(to);
            }
        }
    }
    levels
}
