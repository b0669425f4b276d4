-- The part of the code selected by nearer.sql.
(SELECT x.part FROM {index}_part AS x WHERE x.id = (b.nearer & 281474976710655))
