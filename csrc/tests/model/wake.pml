/* fastqps sleep and wake: no wake-up is lost, whoever is killed, at whatever point.
 *
 * core/wake.h, with Claimer::next, await_company, sleep, rest, leave and wake_holding_doors (core/claimer.h), Slab::publish, announce and settle_all
 * (core/slab.h), publish_death (core/supervise.h). Claiming ahead, joining and the batch delay follow guesses of what is worth
 * while; here every guess may go either way. A lane may ring at any time: who holds a batch may wake without a reason.
 *
 * Slots are left out (protocol.pml has them). A request is a token: in ring[f], held by a dispatcher, or a hint in out[].
 * Every load and store of a sleep word, a tail or an eventfd is a step of its own. Memory is sequentially consistent here,
 * which is why the protocol asks for seq_cst on exactly these words (order.cpp shows what happens with less).
 */
#ifndef F
#define F 1              /* front doors: 1 or 2 */
#endif
#ifndef D
#define D 2              /* dispatchers: 2 or 3 */
#endif
#ifndef R
#define R 2              /* requests per front door */
#endif
#ifndef KD
#define KD 0             /* dispatchers killed, at most this often */
#endif
#ifndef KF
#define KF 0             /* front doors killed, at most this often */
#endif
#ifndef RESPAWN
#define RESPAWN 1        /* 0: dead dispatchers are reaped but not started again */
#endif
#ifndef AHEAD
#define AHEAD 1          /* a dispatcher may look again, and claim, while it holds a batch */
#endif
#ifndef JOIN
#define JOIN 0           /* 1: sequences run: it looks after every step, any number of times, and may decline what waits */
#endif
#ifndef BESIDE
#define BESIDE 0         /* 1: of several lanes one is free: it looks, sleeps or rests, any number of times, while it holds a batch */
#endif
#ifndef LINGER
#define LINGER 0         /* 1: a dispatcher that holds a batch may sleep a while, for company */
#endif
#ifndef LEAVE
#define LEAVE 0          /* 1: one dispatcher may leave for good instead of sleeping on (no death is published) */
#endif
#ifndef HOLD
#define HOLD 0           /* above 0: a front door holds back what comes while its ring has so many entries */
#endif
#ifndef STUCK
#define STUCK 0          /* 1: one dispatcher may stop for ever while it runs a batch; all that it does not hold must be answered */
#endif
#ifndef MUT
#define MUT 0            /* a deliberate mistake, see check.sh */
#endif

#define BUSY 0
#define HUNGRY 1
#define ASLEEP 2
#define NONE 7

byte ring[F];            /* entries published and not consumed: tail - head */
byte held[D*F];          /* consumed by this dispatcher, not yet DONE */
byte done[D*F];          /* DONE, hint not yet pushed */
byte out[D*F];           /* hints in the output ring of (dispatcher, front door) */
bit  stale[D*F];         /* what this dispatcher holds belongs to a dead front door: its answer is ignored */
byte sl[D], fsl[F];      /* sleep words, without their sequence number */
bit  ev[D], evf[F];      /* eventfds: counter > 0 */

/* Each process privately remembers the sleep word it last signalled, and does not signal the same sleep twice.
 * sg[waker*D+d] says "waker has signalled d in its present sleep"; a new sleep (a new sequence number) clears it. */
bit  sg[(D+F)*D], fs[D*F];
bit  isdead[D];          /* dead_epoch has been published for the present incarnation */
byte deaths;
#if STUCK
bit  stuck;
#endif
#if LEAVE
bit  left;
#endif
bit  kd[D], kf[F], up[D], upf[F];
byte back[F];            /* requests that wait for a place in the ring (DoorRoute::held_back) */
byte sent[F], open[F];   /* requests that arrived; requests accepted and not yet answered (private to the front door) */

#if F > 1
#define NEWSLEEP(d) sg[d] = 0; sg[D+d] = 0; sg[2*D+d] = 0; sg[3*D+d] = 0; sg[(D+F-1)*D+d] = 0
#else
#define NEWSLEEP(d) sg[d] = 0; sg[D+d] = 0; sg[2*D+d] = 0; sg[(D+F-1)*D+d] = 0
#endif

/* look at one sleep word on behalf of wake_one. b: whom to signal, NONE = nobody yet, D = nobody at all */
inline look(q) {
  atomic {
    if
    :: q != self && b != D && sl[q] == HUNGRY -> b = D                             /* it will look by itself */
    :: q != self && b != D && sl[q] == ASLEEP && sg[self*D+q] && MUT != 7 -> b = D /* a wake-up is under way */
    :: q != self && b == NONE && sl[q] == ASLEEP && (!sg[self*D+q] || MUT == 7) -> b = q
    :: else
    fi }
}

/* Waker::wake_all: signal every sleeper, signalled before or not */
#define SIGNAL(q) d_step { if :: sl[q] == ASLEEP -> sg[self*D+q] = 1; ev[q] = 1 :: else fi }
inline wake_all() {
  SIGNAL(0); SIGNAL(1)
#if D > 2
  ; SIGNAL(2)
#endif
}

/* Waker::wake_dispatcher: wake one, unless one is hungry or already signalled */
inline wake_one() {
  b = NONE;
  look(0); look(1);
#if D > 2
  look(2);
#endif
#if MUT == 7
  if :: b < D -> sl[b] = BUSY; ev[b] = 1 :: else fi;            /* mistake: the waker clears the flag, then signals */
  b = 0
#else
  d_step { if :: b < D -> sg[self*D+b] = 1; ev[b] = 1 :: else fi; b = 0 }               /* write(eventfd) */
#endif
}

/* Claimer::wake_holding_doors, after a head has moved: a front door that sleeps and holds something back is woken */
inline wake_holding(q) {
  b = fsl[q];                                                   /* seq_cst load */
#if MUT != 26
  d_step { if :: b == ASLEEP && back[q] > 0 && !fs[self*F+q] -> fs[self*F+q] = 1; evf[q] = 1 :: else fi; b = 0 }   /* write(eventfd) */
#else
  b = 0
#endif
}
inline wake_holding_doors() {
#if HOLD
  wake_holding(0)
#if F > 1
  ; wake_holding(1)
#endif
#else
  skip
#endif
}

/* BUSY: "I shall not look for a while". Something left anywhere: wake one more */
inline busy() {
  wake_holding_doors();
  sl[self] = BUSY;                                              /* seq_cst store */
#if MUT != 11
  if
  :: ring[0] > 0 -> wake_one()
  :: else ->
#if F > 1
     if :: ring[1] > 0 -> wake_one() :: else fi
#endif
  fi
#endif
}

/* run, DONE, hint, wake the front door */
inline finish(q) {
  if
  :: held[self*F+q] > 0 ->
#if STUCK
       if :: atomic { !stuck && sl[self] == BUSY -> stuck = 1 }; false :: true fi;
#endif
       d_step { held[self*F+q]--; done[self*F+q]++ };           /* DONE: the state word */
       d_step { done[self*F+q]--; out[self*F+q]++ };            /* hint: seq_cst store of tail */
       b = fsl[q];                                              /* seq_cst load */
       d_step { if :: b == ASLEEP && !fs[self*F+q] -> fs[self*F+q] = 1; evf[q] = 1 :: else fi; b = 0 }   /* write(eventfd) */
  :: else
  fi
}

/* claim from one ring; or not: it may not fit, or not be worth while */
#define TAKE(q) atomic { if :: ring[q] > 0 -> ring[q]--; held[self*F+q]++ :: true fi }

proctype Disp(byte self)
{
  byte b;
start:
  { skip;
find:
    sl[self] = HUNGRY;                                          /* seq_cst store */
    atomic { if :: ring[0] > 0 -> ring[0]--; held[self*F]++; goto got :: else fi };     /* load tail; CAS head */
#if F > 1
    atomic { if :: ring[1] > 0 -> ring[1]--; held[self*F+1]++; goto got :: else fi };
#endif
    d_step { sl[self] = ASLEEP; NEWSLEEP(self) };               /* announce: seq_cst store */
#if MUT != 8
    if :: ring[0] > 0 -> goto find :: else fi;                  /* recheck: seq_cst loads */
#if F > 1
    if :: ring[1] > 0 -> goto find :: else fi;
#endif
#endif
#if LEAVE
    if
    :: d_step { ev[self] -> ev[self] = 0 }                      /* sleep: read(eventfd) */
    :: d_step { !left -> left = 1 }; goto leave                 /* told to stop */
    fi;
#else
    d_step { ev[self] -> ev[self] = 0 };                        /* sleep: read(eventfd) */
#endif
    goto find;
got:
#if LINGER
    wake_holding_doors();
    if
    :: skip                                                     /* the batch is full, or has waited long enough */
    :: d_step { sl[self] = ASLEEP; NEWSLEEP(self) };            /* await_company(): announce */
       if :: ring[0] > 0 -> goto company :: else fi;            /* recheck */
#if F > 1
       if :: ring[1] > 0 -> goto company :: else fi;
#endif
       if :: d_step { ev[self] -> ev[self] = 0 } :: skip fi;    /* woken; or the delay is over */
company:
       sl[self] = HUNGRY;
       TAKE(0);
#if F > 1
       TAKE(1);
#endif
    fi;
#endif
more:
    busy();
#if AHEAD
    if
    :: held[self*F] + held[self*F+F-1] == (F > 1 -> 1 : 2) ->   /* next(ahead): one batch on the device, room for another */
       sl[self] = HUNGRY;
       TAKE(0);
#if F > 1
       TAKE(1);
#endif
       busy()
    :: skip
    fi;
#endif
#if JOIN
    do
    :: sl[self] = HUNGRY;                                       /* next(kJoin) */
#if MUT == 20
       if
       :: atomic { ring[0] > 0 -> ring[0]--; held[self*F]++ }; busy()
       :: sl[self] = BUSY                                       /* mistake: who declines wakes nobody */
       fi
#else
       TAKE(0);                                                 /* declines also because it believes that another sleeps */
#if F > 1
       TAKE(1);
#endif
       busy()
#endif
    :: break
    od;
#endif
#if BESIDE
    do
    :: sl[self] = HUNGRY;                                       /* next(kLaneFree) */
       if
       :: TAKE(0);                                              /* it got something; or leaves it, while suspects wait */
#if F > 1
          TAKE(1);
#endif
#if MUT == 25
          sl[self] = BUSY;                                      /* mistake: who rests wakes nobody for what it leaves */
#else
          busy();
#endif
          if :: d_step { ev[self] -> ev[self] = 0 } :: skip fi  /* rest(): rung for, or the time is over */
       :: atomic { if :: ring[0] > 0 -> ring[0]--; held[self*F]++; goto more :: else fi };
#if F > 1
          atomic { if :: ring[1] > 0 -> ring[1]--; held[self*F+1]++; goto more :: else fi };
#endif
          d_step { sl[self] = ASLEEP; NEWSLEEP(self) };         /* sleep(): announce */
          if :: ring[0] > 0 -> goto beside :: else fi;          /* recheck */
#if F > 1
          if :: ring[1] > 0 -> goto beside :: else fi;
#endif
          if :: d_step { ev[self] -> ev[self] = 0 } :: skip fi; /* rung for, by a producer or a lane */
beside:   skip                                                  /* it scatters with ASLEEP in its word */
       fi
    :: break
    od;
#endif
    finish(0);
#if F > 1
    finish(1);
#endif
    if :: held[self*F] + held[self*F+F-1] > 0 -> goto more :: else fi;
    goto find;
#if LEAVE
leave:
#if MUT == 19
    sl[self] = BUSY;                                            /* mistake: a wake-up that came meanwhile is lost */
#else
    busy();
#endif
    false                                                       /* gone */
#endif
  } unless { kd[self] }
  d_step { b = 0; sg[self*D] = 0; sg[self*D+1] = 0; sg[self*D+D-1] = 0; fs[self*F] = 0; fs[self*F+F-1] = 0 };
  d_step { up[self] -> up[self] = 0; kd[self] = 0 };
  goto start
}

/* pop one hint */
#define POP(q) out[q*F+f] > 0 -> d_step { out[q*F+f]--; if :: stale[q*F+f] -> stale[q*F+f] = 0 :: else -> open[f]-- fi }

/* requests that a dead dispatcher held go back to the ring; those it had finished are answered by the scan */
inline recover(q) {
  d_step {
    if
    :: isdead[q] ->
         if :: !stale[q*F+f] -> ring[f] = ring[f] + held[q*F+f]; open[f] = open[f] - done[q*F+f] :: else fi;
         held[q*F+f] = 0; done[q*F+f] = 0; stale[q*F+f] = 0
    :: else
    fi }
}

/* a new request goes into the ring, or waits for a place there */
#if HOLD
#define PUT if :: back[f] > 0 || ring[f] >= HOLD -> back[f]++ :: else -> ring[f]++ fi
#else
#define PUT ring[f]++
#endif

proctype Front(byte f, self)            /* self: D + f, as a waker */
{
  byte seen, d, b;
start:
  {
    d_step {                                                    /* empty my rings; whatever is held is nobody's now */
      seen = deaths; ring[f] = 0; back[f] = 0; open[f] = 0; d = 0;
      do
      :: d < D -> stale[d*F+f] = (held[d*F+f] + done[d*F+f] > 0); out[d*F+f] = 0; d++
      :: else -> break
      od; d = 0 };
    do
    :: d_step { sent[f] < R -> sent[f]++; open[f]++; PUT };      /* one request arrives: seq_cst store of tail */
       wake_one()
    :: d_step { R - sent[f] > 1 -> sent[f] = sent[f] + 2; open[f] = open[f] + 2; PUT; PUT };   /* or a burst */
       wake_one()
#if HOLD
    :: d_step { back[f] > 0 && ring[f] < HOLD -> back[f]--; ring[f]++ };        /* RequestQueue::feed */
       wake_one()
#endif
    :: POP(0)
    :: POP(1)
#if D > 2
    :: POP(2)
#endif
    :: seen != deaths -> seen = deaths;
       recover(0); recover(1);
#if D > 2
       recover(2);
#endif
#if MUT != 6
       if :: ring[f] > 0 -> wake_all() :: else fi
#endif
    :: else ->
#if MUT != 9
       d_step { fsl[f] = ASLEEP; fs[f] = 0; fs[F+f] = 0; fs[(D-1)*F+f] = 0 };   /* announce: seq_cst store */
#endif
       if :: seen != deaths -> goto awake :: else fi;           /* recheck: seq_cst loads */
       if :: out[f] > 0 -> goto awake :: else fi;
       if :: out[F+f] > 0 -> goto awake :: else fi;
#if D > 2
       if :: out[2*F+f] > 0 -> goto awake :: else fi;
#endif
#if HOLD && MUT != 27
       if :: back[f] > 0 && ring[f] < HOLD -> goto awake :: else fi;   /* a head may have moved before the announcement */
#endif
#if MUT == 9
       d_step { fsl[f] = ASLEEP; fs[f] = 0; fs[F+f] = 0; fs[(D-1)*F+f] = 0 };   /* mistake: look, then announce */
#endif
       if
       :: evf[f] -> evf[f] = 0                                  /* sleep: epoll_wait on eventfd and sockets */
       :: sent[f] < R
       fi;
awake: fsl[f] = BUSY
    od
  } unless { kf[f] }
  d_step { seen = 0; d = 0; b = 0; sg[self*D] = 0; sg[self*D+1] = 0; sg[self*D+D-1] = 0 };
  d_step { upf[f] -> upf[f] = 0; kf[f] = 0 };
  goto start
}

active proctype Supervisor()
{
  byte d;
  do
  :: atomic { kd[0] && !up[0] && !isdead[0] -> d = 0 }; goto reap
#if D > 2
  :: atomic { kd[2] && !up[2] && !isdead[2] -> d = 2 }; goto reap
#endif
  :: atomic { kd[1] && !up[1] && !isdead[1] -> d = 1 };
reap:
#if MUT != 15
     sl[d] = BUSY;                                              /* nobody may count on the dead to look */
#endif
     isdead[d] = 1;                                             /* dead_epoch[d]: seq_cst */
     deaths++;                                                  /* seq_cst */
#if MUT != 16
     evf[0] = 1; evf[F-1] = 1;                                  /* write(eventfd) of every front door */
#endif
#if RESPAWN
     /* the real protocol compares epochs, so a new incarnation need not wait; tokens carry no epoch, so here it does */
     d_step { held[d*F] + held[d*F+F-1] + done[d*F] + done[d*F+F-1] == 0 -> isdead[d] = 0; up[d] = 1 };
#endif
     d = 0
  :: d_step { kf[0] && !upf[0] -> upf[0] = 1 }
#if F > 1
  :: d_step { kf[1] && !upf[1] -> upf[1] = 1 }
#endif
  od
}

active proctype Killer()
{
  byte n = KD, m = KF;
  do
  :: d_step { n > 0 && !kd[0] -> n--; kd[0] = 1 }
  :: d_step { n > 0 && !kd[1] -> n--; kd[1] = 1 }
#if D > 2
  :: d_step { n > 0 && !kd[2] -> n--; kd[2] = 1 }
#endif
  :: d_step { m > 0 && !kf[0] -> m--; kf[0] = 1 }
#if F > 1
  :: d_step { m > 0 && !kf[1] -> m--; kf[1] = 1 }
#endif
  :: d_step { n = 0; m = 0 } -> break
  od
}

active proctype Judge()                                         /* runs when nothing else can */
{
  timeout ->
#if STUCK
  assert(ring[0] == 0 && open[0] == held[0] + held[D-1]);       /* F = 1, D = 2: all but what the stopped one holds */
  assert(stuck || open[0] == 0)
#else
  assert(open[0] == 0 && open[F-1] == 0);                       /* every accepted request was answered */
#endif
  assert(sent[0] == R && sent[F-1] == R)
}

init {
  atomic {
#if F > 1
    run Front(1, D+1);
#endif
#if D > 2
    run Disp(2);
#endif
    run Front(0, D); run Disp(0); run Disp(1)
  }
}
