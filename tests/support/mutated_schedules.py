"""Mutations of correct schedules, with the kind of fault that the checker reports for each."""

from __future__ import annotations

from schedules import (
    Mutation,
    change,
    constant,
    count,
    double,
    drop,
    flip,
    move_before,
    move_to_end,
    on_top,
    retarget,
    shorter_loop,
    stage_of,
)

FULL, EMPTY = "left.full", "left.empty"


GEMM: dict[str, tuple[Mutation, str]] = {
    "consumer does not wait": (drop("mbarrier.wait", FULL), "race"),
    "producer does not wait": (drop("mbarrier.wait", EMPTY), "race"),
    "no release in an iteration": (drop("mbarrier.arrive", EMPTY), "deadlock"),
    "no release after the loop": (drop("mbarrier.arrive", EMPTY, 1), "deadlock"),
    "two releases": (double("mbarrier.arrive", EMPTY), "arrivals"),
    "nothing announced": (drop("mbarrier.expect"), "bytes"),
    "announced twice": (double("mbarrier.expect"), "arrivals"),
    "too few bytes": (change("mbarrier.expect", bytes=-16384), "bytes"),
    "too many bytes": (change("mbarrier.expect", bytes=16), "bytes"),
    "a copy is missing": (drop("bulk.load", occurrence=1), "bytes"),
    "a copy is made twice": (double("bulk.load"), "race"),
    "consumer's phase is constant": (constant("mbarrier.wait", FULL, 2), "phase"),
    "producer's phase is constant": (constant("mbarrier.wait", EMPTY, 2, 1), "phase"),
    "consumer's phase is flipped": (flip("mbarrier.wait", 2, FULL), "aliasing"),
    "producer's phase is flipped": (flip("mbarrier.wait", 2, EMPTY), "deadlock"),
    "too few arrivals counted": (count(EMPTY, -1), "arrivals"),
    "too many arrivals counted": (count(EMPTY, 1), "arrivals"),
    "an expected arrival that never happens": (count(FULL, 1), "arrivals"),
    "copy to another stage": (stage_of("bulk.load"), "unwritten"),
    "matmul of another stage": (stage_of("group.mma"), "unwritten"),
    "waits for one stage only": (constant("mbarrier.wait", FULL, 1), "phase"),
    "releases one stage only": (constant("mbarrier.arrive", EMPTY, 1), "arrivals"),
    "no wait for matmuls": (drop("group.mma_wait"), "race"),
    "one matmul too many in flight": (change("group.mma_wait", pending=1), "race"),
    "released before the wait": (move_to_end("group.mma_wait"), "race"),
    "result used in flight": (change("group.mma_wait", occurrence=1, pending=1), "in-flight"),
    "stores in flight at the end": (drop("bulk.wait"), "unfinished"),
    "releases the wrong barrier": (retarget("mbarrier.arrive", EMPTY, FULL), "aliasing"),
    "staging overlaps a stage": (on_top("staging", "left"), "race"),
    "two pipes overlap": (on_top("right", "left"), "race"),
    "a barrier overlaps a stage": (on_top(FULL, "left"), "budget"),
    "fewer tiles fetched": (shorter_loop(0, 0), "deadlock"),
    "fewer steps multiplied": (shorter_loop(1, 1), "aliasing"),
    "barriers not published": (drop("mbarrier.ready"), "init"),
}


TWO_PRODUCERS: dict[str, tuple[Mutation, str]] = {
    "no wait for one pipe": (drop("mbarrier.wait", "right.full"), "race"),
    "half of the warps counted": (count("right.empty", -4), "arrivals"),
    "fewer tiles fetched": (shorter_loop(0, 1), "deadlock"),
    "fewer tiles multiplied": (shorter_loop(0, 2), "unfinished"),
    "too many bytes": (change("mbarrier.expect", occurrence=1, bytes=512), "bytes"),
    "one pipe is not released": (drop("mbarrier.arrive", "right.empty"), "deadlock"),
    "two pipes overlap": (on_top("right", "left"), "race"),
    "one barrier for two announcements": (retarget("mbarrier.expect", "right.full", FULL), "arrivals"),
    "one barrier for two copies": (retarget("bulk.load", "right.full", FULL), "bytes"),
    "released before it is read": (move_before("mbarrier.arrive", EMPTY, "buf.read"), "race"),
    "no fence before a release": (drop("fence.async"), "fence"),
    "fence before the reads": (move_before("fence.async", "", "buf.read"), "fence"),
}


CHAIN: dict[str, tuple[Mutation, str]] = {
    "no fence after a push": (drop("fence.async", occurrence=1), "fence"),
    "fence after the arrival": (move_before("mbarrier.arrive", FULL, "fence.async", 1), "fence"),
    "no fence before a release": (drop("fence.async"), "fence"),
    "fence after the release": (move_before("mbarrier.arrive", "raw.empty", "fence.async"), "fence"),
    "no arrival after a push": (drop("mbarrier.arrive", FULL), "deadlock"),
    "one of four warps counted": (count(FULL, -3), "arrivals"),
    "no wait before a push": (drop("mbarrier.wait", EMPTY), "race"),
    "arrival before the push": (move_before("mbarrier.arrive", FULL, "buf.write"), "race"),
    "push to another stage": (stage_of("buf.write"), "unwritten"),
    "released before it is read": (move_before("mbarrier.arrive", "raw.empty", "buf.read"), "race"),
    "fewer tiles multiplied": (shorter_loop(0, 2), "aliasing"),
    "announced before the stage is free": (
        move_before("mbarrier.expect", "raw.full", "mbarrier.wait"),
        "arrivals",
    ),
}


REGISTERS: dict[str, tuple[Mutation, str]] = {
    "released before the matmul": (
        move_before("mbarrier.arrive", "right.empty", "group.register_mma"),
        "race",
    ),
}
