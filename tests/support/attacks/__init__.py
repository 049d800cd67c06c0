"""Generated schedules, wrong and correct, and an oracle that is independent of the compiler.

- rows: the rows by which attacks are classified
- program, walks: loops over items, in pairs of forms that agree, or differ in some launches; stages and phases
- rings, pipes: the roles that fill stages, and the uses of their items
- scheduler, clusters: tiles whose indices are drawn at run time; 2-CTA clusters that fetch tiles for each other
- triggers, faults: rare conditions, and faults that occur under these conditions
- lowered: mutations of a program after lowering
- attack: attacks by number
- translate, simulate: the text of a kernel, simulated on integers in many orders
- judge: the checker's verdict, and replays
- shapes, edits, compositions, constructs: programs and edits that rings do not cover
"""
