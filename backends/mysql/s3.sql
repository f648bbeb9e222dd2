call flockd_acquire_1('zz','b',1,60000000,0,0,'exclusive',0,'{}',0,'','',0,0,0,5);
call flockd_acquire_1('zz','b',1,60000000,0,0,'exclusive',0,'{}',0,'','',0,0,0,5);
call flockd_acquire_1('zz','b',1,60000000,0,0,'exclusive',0,'{}',0,'','',0,0,0,5);
