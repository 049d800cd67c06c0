"""Generated schedules, wrong and right, and an oracle that is independent of the compiler.

rows                    what attacks are sorted by
program, walks          loops over items in forms that agree, or differ in some launches; stages and phases
rings, pipes            who fills stages and what becomes of what they hold
scheduler, clusters     numbers of tiles that are drawn; blocks that fetch for each other
triggers, faults        conditions that seldom hold, and what is spoiled where they do
lowered                 what is spoiled after a program has been lowered
attack                  all of it, by number
translate, simulate     the text of a kernel, run on integers in many orders
judge                   what the checker says, and what replays do"""
