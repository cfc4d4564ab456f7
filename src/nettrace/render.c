typedef int nothing_here;
