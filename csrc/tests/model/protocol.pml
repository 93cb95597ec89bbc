/* fastqps shared-memory protocol: slots, request rings, output hints, deaths, recovery, sleep and wake.
 *
 * Front() is Slab (core/slab.h), Disp() is Claimer (core/claimer.h) as EncodeStepper (step/encode/encode_stepper.h) drives it, Supervisor()
 * is publish_death (core/supervise.h).
 *
 * One Promela step has at most one effect that another process can see, so a kill -9 can fall between any two effects.
 * Reads are folded into the step that acts on them where the value cannot change in between (ring.pml proves this for
 * "read the entries, then CAS head"; a compare-and-swap covers the others). Sleep, wake and death notices are not folded.
 * An entry of a request ring is invisible until publish() stores the tail, so it is folded into the step that stores the
 * QUEUED word; several entries may become visible at once, and a kill may fall before that.
 * Suspects are not always first: between two of them a dispatcher takes others. Here it chooses as it likes.
 * A SIGSTOP is an arbitrarily long pause, which interleaving covers; a process stopped for ever is FREEZE=1.
 *
 * check.sh lists every configuration, and every deliberate mistake (MUT) with the verdict it must get.
 * Ghost state (verdict[], pdeaths) is never read by the protocol.
 */
#ifndef F
#define F 1              /* front doors */
#endif
#ifndef S
#define S 2              /* slots per front door */
#endif
#ifndef R
#define R 3              /* requests per front door */
#endif
#ifndef CAP
#define CAP (2*S)        /* entries of a request ring */
#endif
#ifndef CANARY
#define CANARY 0         /* canaries that front door 0 puts for each dispatcher, at most */
#endif
#ifndef OCAP
#if CANARY
#define OCAP (2*S+1)     /* entries of an output ring; in truth as many with canaries as without, and a tick */
#else
#define OCAP (2*S)
#endif
#endif
#ifndef KD
#define KD 1             /* dispatchers killed, at most this often */
#endif
#ifndef KF
#define KF 0             /* front doors killed, at most this often */
#endif
#ifndef NC
#define NC 0             /* cancellations, at most this often (deadline expiry is the same transition) */
#endif
#ifndef K
#define K 2              /* entries per claim, at most */
#endif
#ifndef WAKE
#define WAKE 0           /* 0: idle processes block on the condition itself; 1: eventfd, announce, recheck, sleep */
#endif
#ifndef POISON
#define POISON 0         /* request 1 of front door 0 kills its dispatcher: 1 = after LAUNCHED, 2 = before LAUNCHED, */
#endif                   /* 3 = after LAUNCHED, each time before or after its first token, as it likes */
#ifndef GEN
#define GEN 0            /* 1: a generator's requests: LAUNCHED for many steps, and they may have made a token */
#endif
#ifndef RESPAWN
#define RESPAWN 1        /* 0: dead dispatchers are reaped but not started again */
#endif
#ifndef FREEZE
#define FREEZE 0         /* 1: a "killed" dispatcher is in truth stopped for ever and nobody notices: only ticks help */
#endif
#ifndef MUT
#define MUT 0            /* a deliberate mistake */
#endif

#define D 2              /* dispatchers */
#define NS (F*S)
#define NR (F*2)         /* rings: 2f = normal, 2f+1 = suspects */

/* state word: seq | epoch | owner | state, changed only as a whole */
#define FREE 0
#define QUEUED 1
#define CLAIMED 2
#define LAUNCHED 3
#define DONE 4
#define W(st,d,e,q) ((st) | ((d)<<3) | ((e)<<4) | ((q)<<8))
#define ST(w) ((w)&7)
#define OWN(w) (((w)>>3)&1)
#define EP(w) (((w)>>4)&15)
#define SQ(w) ((w)>>8)
#define HELD(w) (ST(w) == CLAIMED || ST(w) == LAUNCHED)

/* ---- shared memory ---- */
short sw[NS];            /* slot state word */
byte  rq[NS];            /* request payload: the request id        (front door while FREE) */
byte  an[NS];            /* answer area                            (the owning dispatcher) */
byte  sk[NS];            /* strikes                                (front door) */
#if GEN
bit   nm[NS];            /* n_made != 0      (the owning dispatcher; the front door when it queues the slot) */
#define MADE(s) nm[s]
#define UNMAKE(s) nm[s] = 0
#else
#define MADE(s) 0
#define UNMAKE(s) skip
#endif
byte  rh[NR], rt[NR];    /* request rings: head (CAS, consumers), tail (front door) */
byte  re[NR*CAP];        /* entries: seq*NS + slot; 0 is written over consumed ones to keep the state space small */
byte  oh[D*F], ot[D*F], oe[D*F*OCAP];
#if NC
byte  ctl[D];            /* control ring of (front door 0, dispatcher), one entry: seq*NS + slot of a cancelled request; 0: empty */
#endif
#if CANARY
short cw[D];             /* the canary slot of (front door 0, dispatcher): a state word, and no entry in any request ring */
byte  ncanary[D];        /* canaries put so far */
#define NOCANARY (ST(cw[me]) != QUEUED)
#else
#define NOCANARY 1
#endif
byte  dead[D];           /* newest epoch known to be dead and reaped (supervisor) */
byte  deaths;            /* counts deaths (supervisor) */
#if WAKE
#define BUSY 0
#define HUNGRY 1
#define ASLEEP 2
byte  sl[D];             /* sleep word, without its sequence number (the dispatcher; the supervisor once it is reaped) */
byte  fsl[F];            /* the front door's sleep word (the front door) */
bit   ev[D], evf[F];     /* eventfds: counter > 0 */
/* Each process privately remembers the sleep word it last signalled, and does not signal the same sleep twice.
 * sg[waker*D+d], fs[d*F+f] say "signalled in its present sleep"; a new sleep (a new sequence number) clears it. */
bit   sg[(D+F)*D], fs[D*F];
#define NEWSLEEP(d) sg[d] = 0; sg[D+d] = 0; sg[2*D+d] = 0; sg[(D+F-1)*D+d] = 0
#define NONE 7
#endif

/* ---- the kernel and the world ---- */
byte  live[D];           /* epoch of the present incarnation (given to it at start) */
bit   kd[D], kf[F];      /* SIGKILL delivered: not one more step */
bit   up[D], upf[F];     /* the supervisor has started a new incarnation */
byte  nxt[F];            /* next request that a client will send */
byte  ncan;              /* cancellations used */
bit   tick[F], expire;   /* FREEZE: timer ticks; at the last one every deadline has passed */

/* ---- ghosts ---- */
#define OK 1
#define CANCELLED 2      /* or expired */
#define INTERNAL 3
#define UNAVAILABLE 4
#define GONE 5           /* the front door died, and the client's connection with it */
byte  verdict[F*R+1];    /* the terminal answer of each request */
byte  pdeaths;           /* deaths caused by the poison request */
#define PDEATHS (POISON == 2 -> 4 : (POISON == 3 -> 3 : 2))    /* that many, at most */
#define ID(f,k) ((f)*R+(k))
#define DROPPED 255      /* what a dispatcher answers instead of running a cancelled request */
#define NONEMPTY(r) (rh[r] != rt[r])
#define ANSWER(id,v) assert(verdict[id] == 0); verdict[id] = v

#if WAKE
/* look at one sleep word. b: whom to signal, NONE = nobody yet, D = nobody at all */
inline look(self, q) {
  atomic {
    if
    :: q != self && b != D && sl[q] == HUNGRY -> b = D                  /* it will look by itself */
    :: q != self && b != D && sl[q] == ASLEEP && sg[(self)*D+q] -> b = D  /* a wake-up is under way */
    :: q != self && b == NONE && sl[q] == ASLEEP && !sg[(self)*D+q] -> b = q
    :: else
    fi }
}

/* Waker::wake_dispatcher: wake one, unless one is hungry or already signalled */
inline wake_one(self) {
  b = NONE; look(self, 0); look(self, 1);
  d_step { if :: b < D -> sg[(self)*D+b] = 1; ev[b] = 1 :: else fi; b = 0 }     /* write(eventfd) */
}
/* Waker::wake_all: signal every sleeper, signalled before or not */
inline wake_all(self) {
  d_step { if :: sl[0] == ASLEEP -> sg[(self)*D] = 1; ev[0] = 1 :: else fi };
  d_step { if :: sl[1] == ASLEEP -> sg[(self)*D+1] = 1; ev[1] = 1 :: else fi }
}
#endif

/* ------------------------------------------------------------------ dispatcher */
proctype Disp(byte me)
{
  byte e, r, n, i; byte c[2]; bit ok[2]; byte v[2]; bit pz;
#if NC
  bit dr[2];             /* to be dropped: its cancel was read between claim and launch */
#endif
#if WAKE
  byte b;
#endif
start:
  {
    e = live[me];
find:
#if MUT == 2
    e = live[me];
#endif
#if WAKE
    sl[me] = HUNGRY;                                            /* seq_cst store */
    if :: NONEMPTY(1) -> r = 1; goto claim :: NONEMPTY(0) || !NONEMPTY(1) fi;   /* suspects first, or between two of them */
    if :: NONEMPTY(0) -> r = 0; goto claim :: else fi;                          /* others, if they are still there */
#if F > 1
    if :: NONEMPTY(2) -> r = 2; goto claim :: else fi;
    if :: NONEMPTY(3) -> r = 3; goto claim :: else fi;
#endif
#if CANARY
    if :: !NOCANARY -> goto canary :: else fi;                  /* nothing else waits */
#endif
    d_step { sl[me] = ASLEEP; NEWSLEEP(me) };                   /* announce: seq_cst store */
    if :: NONEMPTY(0) -> goto find :: else fi;                  /* recheck: seq_cst loads of every tail */
    if :: NONEMPTY(1) -> goto find :: else fi;
#if F > 1
    if :: NONEMPTY(2) -> goto find :: else fi;
    if :: NONEMPTY(3) -> goto find :: else fi;
#endif
    d_step { ev[me] -> ev[me] = 0 };                            /* sleep: read(eventfd) */
    goto find;
#else
    if
    :: rh[0] != rt[0] -> r = 0
    :: rh[1] != rt[1] -> r = 1
#if CANARY
    :: !NOCANARY -> goto canary                                 /* here also before what waits */
#endif
#if F > 1
    :: rh[2] != rt[2] -> r = 2
    :: rh[3] != rt[3] -> r = 3
#endif
    fi;
#endif
claim:
    atomic {                                                    /* loads of head, tail, entries; CAS on head */
      if
      :: rh[r] == rt[r] -> r = 0; goto find
      :: rh[r] != rt[r] -> n = 1
      :: rt[r] - rh[r] > 1 && ((r & 1) == 0 || MUT == 23) && K > 1 -> n = 2    /* suspects are claimed one at a time */
      fi;
      c[0] = re[r*CAP + rh[r] % CAP]; re[r*CAP + rh[r] % CAP] = 0;
      if :: n == 2 -> c[1] = re[r*CAP + (rh[r]+1) % CAP]; re[r*CAP + (rh[r]+1) % CAP] = 0 :: else fi;
      rh[r] = rh[r] + n; r = 0
    };
#if WAKE
    sl[me] = BUSY;                                              /* seq_cst store */
    if                                                          /* something left anywhere? wake one more */
    :: NONEMPTY(0) || NONEMPTY(1) -> wake_one(me)
#if F > 1
    :: !NONEMPTY(0) && !NONEMPTY(1) && (NONEMPTY(2) || NONEMPTY(3)) -> wake_one(me)
#endif
    :: else
    fi;
#endif
    do                                                          /* CAS slot QUEUED(seq) -> CLAIMED: the true claim */
    :: i < n -> atomic {
         if
         :: sw[c[i]%NS] == W(QUEUED,0,0,c[i]/NS) -> ok[i] = 1; c[i] = c[i]%NS; sw[c[i]] = W(CLAIMED,me,e,SQ(sw[c[i]]))
         :: else -> ok[i] = 0; c[i] = 0
         fi; i++ }
    :: i == n -> i = 0; break
    od;
#if NC
    if                                                          /* read_controls(): a cancel of what we hold, else too late or old */
    :: ctl[me] != 0 -> d_step {
         if
         :: ok[0] && c[0] == ctl[me]%NS && (SQ(sw[c[0]]) == ctl[me]/NS || MUT == 18) -> dr[0] = 1
         :: n == 2 && ok[1] && c[1] == ctl[me]%NS && (SQ(sw[c[1]]) == ctl[me]/NS || MUT == 18) -> dr[1] = 1
         :: else
         fi; ctl[me] = 0 }
    :: true                                                     /* it comes a moment later */
    fi;
#endif
    do                                                          /* gather; CLAIMED -> LAUNCHED before the launch */
    :: i < n && ok[i] -> atomic {
         v[i] = rq[c[i]]; pz = pz | (v[i] == ID(0,1));
#if POISON == 2
         if :: pz -> pdeaths++; assert(pdeaths <= PDEATHS); kd[me] = 1; goto find :: else fi;
#endif
         if :: sw[c[i]] == W(CLAIMED,me,e,SQ(sw[c[i]])) -> sw[c[i]] = W(LAUNCHED,me,e,SQ(sw[c[i]]))
            :: else -> assert(MUT != 0); ok[i] = 0 fi; i++ }
    :: i < n && !ok[i] -> i++
#if GEN
    :: i > 0 && ok[0] && !nm[c[0]] && (POISON == 3 || v[0] != ID(0,1)) -> nm[c[0]] = 1      /* its first token; */
    :: i > 1 && ok[1] && !nm[c[1]] && (POISON == 3 || v[1] != ID(0,1)) -> nm[c[1]] = 1      /* the other has perhaps just joined */
#endif
    :: i == n -> break
    od;
    atomic { i = 0;
#if POISON == 1 || POISON == 3
      if :: pz -> pdeaths++; assert(pdeaths <= PDEATHS); kd[me] = 1; goto find :: else fi;
#endif
      pz = 0 };
    do                                                          /* scatter: answer, DONE, hint, wake */
    :: i < n && ok[i] ->
#if MUT == 10
         sw[c[i]] = W(DONE,me,e,SQ(sw[c[i]])); an[c[i]] = v[i]; /* mistake: DONE before the answer */
#else
#if NC
         an[c[i]] = (dr[i] -> DROPPED : v[i]);                  /* plain write */
#else
         an[c[i]] = v[i];                                       /* plain write */
#endif
         atomic { if :: sw[c[i]] == W(LAUNCHED,me,e,SQ(sw[c[i]])) -> sw[c[i]] = W(DONE,me,e,SQ(sw[c[i]]))
                     :: else -> assert(MUT != 0); ok[i] = 0 fi };
#endif
         atomic { r = me*F + c[i]/S;
           if
           :: ok[i] && ot[r] - oh[r] < OCAP -> oe[r*OCAP + ot[r]%OCAP] = c[i]; ot[r] = ot[r] + 1   /* seq_cst store of tail */
           :: ok[i] && ot[r] - oh[r] >= OCAP -> assert(MUT != 0 || FREEZE)   /* full: drop the hint, never wait */
           :: else
           fi; r = 0 };
#if WAKE
         b = fsl[c[i]/S];                                       /* seq_cst load */
         d_step { if :: b == ASLEEP && !fs[me*F+c[i]/S] -> fs[me*F+c[i]/S] = 1; evf[c[i]/S] = 1 :: else fi; b = 0 };
#endif
#if NC
         dr[i] = 0;
#endif
         d_step { c[i] = 0; v[i] = 0; ok[i] = 0; i++ }
    :: i < n && !ok[i] -> d_step { c[i] = 0; v[i] = 0; i++ }
    :: i == n -> d_step { i = 0; n = 0 }; goto find
    od
#if CANARY
canary:
    atomic { if :: !NOCANARY -> cw[me] = W(CLAIMED,me,e,SQ(cw[me])) :: else -> goto find fi };
#if WAKE
    sl[me] = BUSY;
    if :: NONEMPTY(0) || NONEMPTY(1) -> wake_one(me) :: else fi;
#endif
    atomic { assert(cw[me] == W(CLAIMED,me,e,SQ(cw[me]))); cw[me] = W(LAUNCHED,me,e,SQ(cw[me])) };
    atomic { assert(cw[me] == W(LAUNCHED,me,e,SQ(cw[me]))); cw[me] = W(DONE,me,e,SQ(cw[me])) };
    atomic { r = me*F; assert(ot[r] - oh[r] < OCAP); oe[r*OCAP + ot[r]%OCAP] = NS; ot[r] = ot[r] + 1; r = 0 };
#if WAKE
    b = fsl[0];
    d_step { if :: b == ASLEEP && !fs[me*F] -> fs[me*F] = 1; evf[0] = 1 :: else fi; b = 0 };
#endif
    goto find
#endif
  } unless { kd[me] && (MUT != 2) }
  d_step {                                                      /* dead: private memory is gone */
    e = 0; r = 0; n = 0; i = 0; pz = 0; c[0] = 0; ok[0] = 0; v[0] = 0; c[1] = 0; ok[1] = 0; v[1] = 0;
#if NC
    dr[0] = 0; dr[1] = 0;
#endif
#if WAKE
    b = 0; sg[me*D] = 0; sg[me*D+1] = 0; fs[me*F] = 0; fs[me*F+F-1] = 0;
#endif
  };
  d_step { up[me] -> up[me] = 0; kd[me] = 0 };
  goto start
}

/* ------------------------------------------------------------------ front door */
#define FREESLOT (held[0] == 0 || (S > 1 && held[1] == 0) || (S > 2 && held[2] == 0))
#define ROOM (pt[0] - rh[2*f] < S)                            /* the other half of the ring is kept for requeues */
#define RELEASE(s) sw[f*S+s] = W(FREE,0,0,SQ(sw[f*S+s])); held[s] = 0; rec[s] = 0; pos[s] = 0; kind[s] = 0; rq[f*S+s] = 0; an[f*S+s] = 0; sk[f*S+s] = 0; UNMAKE(f*S+s)

#if WAKE
#define WAKEUP wake_one(D+f)
#define WAKEALL wake_all(D+f)
#else
#define WAKEUP skip
#define WAKEALL skip
#endif

/* Slab::publish(): one store of each tail */
#define PENDING (pt[0] != rt[2*f] || pt[1] != rt[2*f+1])
inline store_tails() {
  if :: pt[0] != rt[2*f] -> rt[2*f] = pt[0] :: else fi;         /* seq_cst */
  if :: pt[1] != rt[2*f+1] -> rt[2*f+1] = pt[1] :: else fi      /* seq_cst */
}

/* one entry, not visible before publish(). No room: answer UNAVAILABLE (impossible on the normal ring, see ROOM) */
inline push(s) {
  r = 2*f + kind[s];
  if
  :: pt[kind[s]] - rh[r] < CAP ->
       re[r*CAP + pt[kind[s]] % CAP] = SQ(sw[f*S+s])*NS + f*S+s;
       pos[s] = pt[kind[s]]; pt[kind[s]] = pt[kind[s]] + 1
  :: else ->
       assert(kind[s] == 1 || CAP < 2*S);
       ANSWER(rec[s], UNAVAILABLE); RELEASE(s)                  /* CAS: nobody can have claimed it */
  fi; r = 0
}

/* DONE -> FREE: hand out the answer, unless this request was answered already */
inline finish(s) {
  if :: held[s] == 1 -> assert(an[f*S+s] == rec[s]); ANSWER(rec[s], OK) :: else fi;
  RELEASE(s)
}

/* a slot that nobody waits for is with a living dispatcher: say its cancel (again), for there was no room, or nobody to say it */
#if NC
#define TELL(s) if :: f == 0 && ctl[OWN(w)] == 0 -> ctl[OWN(w)] = SQ(w)*NS + s :: else fi
#else
#define TELL(s) skip
#endif

/* what a death counts for: claimed 1, launched 2; but 1 if it has made tokens, unless it ran alone */
#define STRIKES(s) (ST(w) != LAUNCHED -> (MUT == 14 -> 0 : 1) : \
                    (MADE(f*S+s) && (kind[s] == 0 || MUT == 21) -> (MUT == 22 -> 0 : 1) : 2))

/* look at one slot and do what its state says: all of recovery */
inline settle(s) {
  atomic {
    w = sw[f*S+s];                                              /* acquire */
    if
    :: held[s] != 0 && ST(w) == DONE -> finish(s)
    :: held[s] == 2 && ST(w) == QUEUED -> RELEASE(s)            /* CAS; inherited from a dead front door */
    :: held[s] != 0 && HELD(w) && EP(w) <= dead[OWN(w)] ->      /* its dispatcher is dead and reaped */
         sk[f*S+s] = sk[f*S+s] + STRIKES(s);
         if
         :: held[s] == 2 -> RELEASE(s)
         :: held[s] == 1 && sk[f*S+s] >= 4 ->
              assert(kind[s] == 1);                             /* it was alone when the last one died */
              ANSWER(rec[s], INTERNAL); RELEASE(s)
         :: else -> UNMAKE(f*S+s); sw[f*S+s] = W(QUEUED,0,0,SQ(w)+1); kind[s] = (sk[f*S+s] >= 2 && MUT != 24); push(s)
         fi
    :: held[s] == 2 && HELD(w) && EP(w) > dead[OWN(w)] -> TELL(s)
    :: held[s] == 1 && ST(w) == QUEUED && pos[s] < rh[2*f+kind[s]] && MUT != 1 ->
         sw[f*S+s] = W(QUEUED,0,0,SQ(w)+1); push(s)             /* CAS; the entry was consumed, but nobody claimed the slot */
    :: else
    fi; w = 0 }
}

/* a hint says: this slot may be DONE. It may also be an old hint */
#define LOOK(s) atomic { if :: held[s] != 0 && ST(sw[f*S+s]) == DONE -> finish(s) :: else fi }

/* a canary's slot: nobody waits for it, and one whose dispatcher has died is over */
#if CANARY
inline settle_canary(q) {
  d_step {
    if
    :: f == 0 && (ST(cw[q]) == DONE || (HELD(cw[q]) && (EP(cw[q]) <= dead[q] || MUT == 29) && MUT != 26)) ->
         cw[q] = W(FREE,0,0,SQ(cw[q]))
    :: else
    fi }
}
#else
#define settle_canary(q) skip
#endif

inline settle_all() {
  do
  :: i < S -> settle(i); i++
  :: i == S -> i = 0; break
  od;
  settle_canary(0); settle_canary(1);
  store_tails();
  if :: NONEMPTY(2*f) || NONEMPTY(2*f+1) -> WAKEALL :: else fi  /* the dead, or stopped, may have been the one that was signalled */
}

proctype Front(byte f)
{
  byte held[S];          /* private: 0 free, 1 open, 2 answered but not yet given back by its dispatcher */
  byte rec[S], pos[S]; bit kind[S];
  byte pt[2];            /* tails of the normal and the suspects' ring, unpublished entries included */
  byte seen, r, i, a, d; short w;
#if WAKE
  byte b;
#endif
start:
  {
    seen = deaths;
    d_step { do :: i < OCAP -> oe[f*OCAP+i] = 0; i++ :: else -> i = 0; break od; oh[f] = ot[f] };     /* forget old hints: */
    d_step { do :: i < OCAP -> oe[(F+f)*OCAP+i] = 0; i++ :: else -> i = 0; break od; oh[F+f] = ot[F+f] };  /* head = tail */
#if MUT != 5
    r = 2*f;
    do                                                          /* consume what my predecessor published: CAS head -> tail */
    :: r < 2*f+2 -> d_step { do :: rh[r] != rt[r] -> re[r*CAP + rh[r]%CAP] = 0; rh[r]++ :: else -> break od; r++ }
    :: r == 2*f+2 -> r = 0; break
    od;
#endif
    atomic { pt[0] = rt[2*f]; pt[1] = rt[2*f+1] };
    do                                                          /* adopt the slab: whatever it holds is nobody's now */
    :: i < S ->
#if MUT == 4
         atomic { RELEASE(i) };                                 /* mistake: free what a living dispatcher holds */
#else
         d_step { if :: ST(sw[f*S+i]) != FREE -> held[i] = 2 :: else fi };
         settle(i);
#endif
         i++
    :: i == S -> i = 0; break
    od;
    settle_canary(0); settle_canary(1);
#if CANARY && WAKE
    if :: f == 0 && ST(cw[0]) == QUEUED && MUT != 28 -> ev[0] = 1 :: else fi;    /* its bell may not have been rung */
    if :: f == 0 && ST(cw[1]) == QUEUED && MUT != 28 -> ev[1] = 1 :: else fi;
#endif
    do
#if CANARY
    :: /* a canary */
       atomic {
         f == 0 && ((ncanary[0] < CANARY && ST(cw[0]) == FREE) || (ncanary[1] < CANARY && ST(cw[1]) == FREE)) ->
         if
         :: ncanary[0] < CANARY && ST(cw[0]) == FREE -> d = 0
         :: ncanary[1] < CANARY && ST(cw[1]) == FREE -> d = 1
         fi;
         ncanary[d]++; cw[d] = W(QUEUED,0,0,SQ(cw[d])+1) };
#if WAKE
       d_step { ev[d] = (MUT != 27 || ev[d]); d = 0 }           /* its bell: write(eventfd), whatever the sleep word says */
#else
       d = 0
#endif
#endif
    :: /* a request arrives */
       atomic { nxt[f] <= R && ROOM && FREESLOT ->
         if
         :: held[0] == 0 -> a = 0
#if S > 1
         :: held[0] != 0 && held[1] == 0 -> a = 1
#endif
#if S > 2
         :: held[0] != 0 && held[1] != 0 -> a = 2
#endif
         fi;
         rec[a] = ID(f, nxt[f]); nxt[f]++; held[a] = 1;
         rq[f*S+a] = rec[a];                                    /* plain writes into a FREE slot, then release: */
         sw[f*S+a] = W(QUEUED,0,0,SQ(sw[f*S+a])+1);
         push(a); a = 0 }
    :: PENDING -> store_tails(); WAKEUP                         /* the end of a turn: perhaps more than one request */
    :: atomic { oh[f] != ot[f] -> d = 0 }; goto pop
    :: atomic { oh[F+f] != ot[F+f] -> d = 1 };
pop:   a = oe[(d*F+f)*OCAP + oh[d*F+f] % OCAP];
#if CANARY
       if :: a == NS -> settle_canary(d); a = 0 :: else fi;
#endif
       a = a % S;
       LOOK(a);
       d_step { oe[(d*F+f)*OCAP + oh[d*F+f] % OCAP] = 0; oh[d*F+f] = oh[d*F+f] + 1; d = 0; a = 0 }   /* release store of head */
    :: /* the client cancels, or the deadline passes */
       atomic {
         ncan < NC && (held[0] == 1 || (S > 1 && held[1] == 1) || (S > 2 && held[2] == 1)) -> ncan++;
         if
         :: held[0] == 1 -> a = 0
#if S > 1
         :: held[1] == 1 -> a = 1
#endif
#if S > 2
         :: held[2] == 1 -> a = 2
#endif
         fi;
         w = sw[f*S+a];
         if
         :: ST(w) == QUEUED -> ANSWER(rec[a], CANCELLED); RELEASE(a)        /* CAS to FREE; if it fails, look again */
#if MUT == 13
         :: HELD(w) -> ANSWER(rec[a], CANCELLED); RELEASE(a)                /* mistake: reuse at once */
#else
         :: HELD(w) -> ANSWER(rec[a], CANCELLED); held[a] = 2;              /* answered; the slot waits for its dispatcher */
              TELL(a)                                           /* full: it works in vain until it is told again */
#endif
         :: else                                                            /* DONE: the answer is on its way */
         fi; w = 0; a = 0 }
    :: /* the supervisor has reaped a dispatcher */
       seen != deaths -> seen = deaths;
       settle_all()
#if FREEZE
    :: tick[f] ->
       settle_all();
       if :: expire -> d_step {
               do
               :: i < S && held[i] == 1 -> ANSWER(rec[i], CANCELLED); held[i] = 2; i++
               :: i < S && held[i] != 1 -> i++
               :: i == S -> i = 0; break
               od }
          :: else
       fi;
       tick[f] = 0
#endif
#if WAKE
    :: else ->
       d_step { fsl[f] = ASLEEP; fs[f] = 0; fs[F+f] = 0 };      /* announce: seq_cst store */
       if :: seen != deaths -> goto awake :: else fi;           /* recheck: seq_cst loads */
       if :: oh[f] != ot[f] -> goto awake :: else fi;
       if :: oh[F+f] != ot[F+f] -> goto awake :: else fi;
       if                                                       /* sleep: epoll_wait on eventfd, sockets, timer */
       :: evf[f] -> evf[f] = 0
       :: nxt[f] <= R && ROOM && FREESLOT
#if CANARY
       :: f == 0 && ((ncanary[0] < CANARY && ST(cw[0]) == FREE) || (ncanary[1] < CANARY && ST(cw[1]) == FREE))
#endif
       :: tick[f]
       fi;
awake: fsl[f] = BUSY                                            /*: seq_cst store */
#endif
    od
  } unless { kf[f] }
  d_step {                                                      /* its connections are gone, and its requests with them */
    i = 0;
    do
    :: i < S -> if :: held[i] == 1 -> verdict[rec[i]] = GONE :: else fi; held[i] = 0; rec[i] = 0; pos[i] = 0; kind[i] = 0; i++
    :: else -> break
    od;
    seen = 0; r = 0; i = 0; a = 0; d = 0; w = 0; pt[0] = 0; pt[1] = 0;
#if WAKE
    b = 0; sg[(D+f)*D] = 0; sg[(D+f)*D+1] = 0;
#endif
  };
  d_step { upf[f] -> upf[f] = 0; kf[f] = 0 };
  goto start
}

/* ------------------------------------------------------------------ supervisor, killer, judge */
#if !FREEZE
active proctype Supervisor()
{
  byte d;
  do
  :: atomic { kd[0] && !up[0] && dead[0] != live[0] -> d = 0 }; goto reap      /* pidfd readable, waitid done */
  :: atomic { kd[1] && !up[1] && dead[1] != live[1] -> d = 1 };
reap:
#if WAKE
     sl[d] = BUSY;                                              /* nobody may count on the dead to look */
#endif
     dead[d] = live[d];                                         /* seq_cst */
     deaths++;                                                  /* seq_cst */
#if WAKE
     evf[0] = 1;
#if F > 1
     evf[1] = 1;
#endif
#endif
#if RESPAWN
     d_step { live[d]++; up[d] = 1;
#if MUT == 2
              up[d] = 0; kd[d] = 0;                             /* mistake: replaced without a kill: the old one runs on */
#endif
     };
#endif
     d = 0
  :: d_step { kf[0] && !upf[0] -> upf[0] = 1 }
#if F > 1
  :: d_step { kf[1] && !upf[1] -> upf[1] = 1 }
#endif
  od
}
#endif

active proctype Killer()
{
  byte n = KD, m = KF;
  do
  :: d_step { n > 0 && !kd[0] -> n--; kd[0] = 1 }
  :: d_step { n > 0 && !kd[1] -> n--; kd[1] = 1 }
  :: d_step { m > 0 && !kf[0] -> m--; kf[0] = 1 }
#if F > 1
  :: d_step { m > 0 && !kf[1] -> m--; kf[1] = 1 }
#endif
  :: d_step { n = 0; m = 0 } -> break
  od
}

/* runs when nothing else can: everything must have been answered, and every slot be free again */
active proctype Judge()
{
  byte k;
#if FREEZE
  timeout -> tick[0] = 1; tick[F-1] = 1;
  timeout -> tick[0] = 1; tick[F-1] = 1;
  timeout ->                                                    /* only what the stopped process itself holds may wait */
  for (k : 0 .. NS-1) { assert(ST(sw[k]) == FREE || (ST(sw[k]) > QUEUED && kd[OWN(sw[k])])) };
  expire = 1; tick[0] = 1; tick[F-1] = 1;
  timeout ->
#else
  timeout ->
  for (k : 0 .. NS-1) { assert(ST(sw[k]) == FREE) };
#endif
#if CANARY
  for (k : 0 .. D-1) { assert(ST(cw[k]) == FREE && ncanary[k] == CANARY) };
#endif
  for (k : 1 .. F*R) {
    assert(verdict[k] == OK
       || (verdict[k] == CANCELLED && NC + FREEZE > 0)
       || (verdict[k] == GONE && KF > 0)
       || (verdict[k] == INTERNAL && (KD > 1 || (POISON > 0 && (k == ID(0,1) || KD > 0))))
       || (verdict[k] == UNAVAILABLE && CAP < 2*S)
       || (verdict[k] == 0 && FREEZE && k >= nxt[0]));          /* never accepted: the stopped process holds the only slot */
    assert(!POISON || k != ID(0,1) || KD + KF + NC > 0 || verdict[k] == INTERNAL)
  }
}

init {
  atomic {
    nxt[0] = 1; live[0] = 1; live[1] = 1;
#if F > 1
    nxt[1] = 1; run Front(1);
#endif
    run Front(0); run Disp(0); run Disp(1)
  }
}
