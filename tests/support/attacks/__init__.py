"""Generated schedules, wrong and right, and an oracle that is independent of the compiler.

rows                    the rows that attacks are sorted by program, walks          loops over items in forms that
agree, or differ in some launches; stages and phases rings, pipes            the roles that fill stages, and the uses of
their items scheduler, clusters     tiles whose numbers are drawn at run time; blocks that fetch for each other
triggers, faults        rare conditions, and the faults that occur under these conditions lowered
changes of a program after lowering attack                  attacks by number translate, simulate     the text of a
kernel, run on integers in many orders judge                   the checker's verdict, and replays"""
